-- Inserts the reader's events into `event_row`; the top bits of a label's number are its trace's number.
INSERT INTO event_row BY NAME SELECT (label_id >> $label_bits)::INTEGER AS trace_id, * FROM rows
