-- Numbers the events of the slices just read by their places in the file.
UPDATE event SET event_id = event.rowid - first_row + before
FROM slice_place
WHERE event.trace_id = $trace_id AND event.event_id = slice AND event.event_id < 0
