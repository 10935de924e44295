-- Inserts the reader's labels into `label`; the top bits of a label's number are its trace's number.
INSERT INTO label BY NAME SELECT (label_id >> $label_bits)::INTEGER AS trace_id, * FROM rows
