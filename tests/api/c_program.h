#pragma once

// Checks of kvik_c.h in C. Each takes a model's folder and returns the first expression that was false, or NULL.
#ifdef __cplusplus
extern "C" {
#endif

const char* c_generates(const char* fable);
const char* c_callbacks_stop(const char* fable);
const char* c_continues_a_session(const char* fable);
const char* c_forks_and_rewinds(const char* fable);
const char* c_keeps_a_path_of_a_tree(const char* fable);
const char* c_runs_out_of_memory(const char* fable);
const char* c_saves_and_loads(const char* fable, const char* file);
const char* c_steps_many_sessions(const char* fable);
const char* c_copies_into_buffers(const char* fable);
const char* c_refuses_null(const char* fable);
const char* c_refuses_what_cannot_be(const char* fable);
const char* c_refuses_sessions_in_use(const char* fable);
const char* c_speculates(const char* fable);
const char* c_structs_grow(const char* fable);

// Of other models.
const char* c_embeds(const char* encoder, const char* fable);
const char* c_translates(const char* translator);
const char* c_transcribes(const char* speech);
const char* c_scores(const char* fable);

// Of engines.
const char* c_streams(const char* fable);
const char* c_polls_and_cancels(const char* fable);
const char* c_fills_a_queue(const char* fable);
const char* c_translates_in_an_engine(const char* translator);
const char* c_embeds_in_an_engine(const char* encoder);
const char* c_refuses_null_engines(const char* fable);

#ifdef __cplusplus
}
#endif
