-- fact: A trace with records of the allocator, or a memory snapshot.
CREATE TABLE _scratch.memory_recorded AS
SELECT DISTINCT trace_id FROM label WHERE (phase = 'i' AND name = '[memory]') OR category = 'memory_snapshot'
