-- Names that tables and views had until format 9, kept for one format.
CREATE OR REPLACE VIEW gpu_op_link AS FROM gpu_op_launch;
CREATE OR REPLACE VIEW gpu_op_host AS FROM launch_site;
