-- One trace's rows of a table ($table) from the attached database `other`, with new numbers ($replaced).
INSERT INTO $table BY NAME SELECT * REPLACE ($replaced) FROM _other.$table WHERE trace_id = $old_id
