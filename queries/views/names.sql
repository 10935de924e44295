-- The meanings of names come from the tables in queries/names, which the view `spelling` lists; each distinct
-- name is looked up once, for the table slice_label.

-- Whether a list of traits has one with that name.
CREATE OR REPLACE MACRO has(traits, trait) AS list_contains(traits, trait);

-- The module's name in a frame that is a call of a module ("nn.Module: Linear_0").
CREATE OR REPLACE MACRO module_name(name) AS substr(name, len('nn.Module: ') + 1);

-- A name without its numbers and addresses: `ProfilerStep#3` and `ProfilerStep#4` become the same.
CREATE OR REPLACE MACRO folded_name(name) AS regexp_replace(name, '0x[0-9a-fA-F]+|[0-9]+', '#', 'g');

-- The spellings of kernel classes.
CREATE OR REPLACE VIEW kernel_patterns AS
SELECT rank, meaning AS class, pattern, source AS known_from FROM spelling WHERE facet = 'class';
