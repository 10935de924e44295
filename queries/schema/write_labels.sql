-- Inserts the reader's labels into `label`, with the trace's number in front of each label's number.
INSERT INTO label BY NAME SELECT (label_id >> $label_bits)::INTEGER AS trace_id, * FROM rows
