-- Events, as the reader gives them, into `event_row`: the number of a label has that of its trace in front.
INSERT INTO event_row BY NAME SELECT (label_id >> $label_bits)::INTEGER AS trace_id, * FROM rows
