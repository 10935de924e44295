-- The meanings of names come from the tables in queries/names, which the view `spelling` lists; each distinct
-- name is looked up once, for the table slice_label.

-- Whether a list of traits has one with that name.
CREATE OR REPLACE MACRO has(traits, trait) AS list_contains(traits, trait);

-- The module's name in a frame that is a call of a module ("nn.Module: Linear_0").
CREATE OR REPLACE MACRO module_name(name) AS substr(name, len('nn.Module: ') + 1);

-- A name without its numbers and addresses: `ProfilerStep#3` and `ProfilerStep#4` become the same.
CREATE OR REPLACE MACRO folded_name(name) AS regexp_replace(name, '0x[0-9a-fA-F]+|[0-9]+', '#', 'g');

-- Steps of inference servers, and the tokens that such a step feeds through the model: those of prompts
-- (context, EXTEND) and those generated. NULL: unknown.
-- "execute_context_1(888_788544)_generation_0(0)": https://github.com/vllm-project/vllm (vllm/v1/worker)
-- "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)": the same, on ROCm
-- "step[DECODE bs=32]", "step[EXTEND bs=1 toks=107]": https://github.com/sgl-project/sglang
CREATE OR REPLACE MACRO prompt_tokens(name) AS CASE
    WHEN starts_with(name, 'step[DECODE ') THEN 0
    WHEN starts_with(name, 'step[EXTEND ')
        THEN TRY_CAST(regexp_extract(name, ' toks=(\d+)', 1) AS BIGINT)
    ELSE TRY_CAST(regexp_extract(name, '^execute_(?:\d+_)?context_\d+\((?:sq)?(\d+)', 1) AS BIGINT) END;
CREATE OR REPLACE MACRO generated_tokens(name) AS CASE
    WHEN starts_with(name, 'step[DECODE ') THEN TRY_CAST(regexp_extract(name, ' bs=(\d+)', 1) AS BIGINT)
    WHEN starts_with(name, 'step[EXTEND ') THEN 0
    ELSE TRY_CAST(regexp_extract(name, '\)_generation_\d+\((?:sq)?(\d+)', 1) AS BIGINT) END;

-- The spellings of kernel classes.
CREATE OR REPLACE VIEW kernel_patterns AS
SELECT rank, meaning AS class, pattern, source AS known_from FROM spelling WHERE facet = 'class';
