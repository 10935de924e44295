-- Names that tables and views had before format 9, kept through format 10.
CREATE OR REPLACE VIEW gpu_op_link AS FROM gpu_op_launch;
CREATE OR REPLACE VIEW gpu_op_host AS FROM launch_site;
