-- Inserts the reader's events into `event_row`, with the trace's number in front of each label's number.
INSERT INTO event_row BY NAME SELECT (label_id >> $label_bits)::INTEGER AS trace_id, * FROM rows
