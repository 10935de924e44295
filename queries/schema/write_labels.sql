-- Labels, as the reader gives them, into `label`: the number of one has that of its trace in front.
INSERT INTO label BY NAME SELECT (label_id >> $label_bits)::INTEGER AS trace_id, * FROM rows
