/* The pieces of an engine's life: files of its own, and sessions of a writer. */
#ifndef TAMIS_TESTS_POWERCUT_SESSION_H
#define TAMIS_TESTS_POWERCUT_SESSION_H

#include "lib/tamis.h"
#include "tests/powercut/history.h"

/* One process; it stands in the directory of its files. */
struct life {
    struct history *h;
    struct tamis_domain domain;
    struct tamis_store *store;
    struct tamis_writer *open[4]; /* left open by their sessions */
    unsigned n_open;
};

/* Ends the process if there was an error. */
void must(int err, const char *doing, const struct tamis_diag *diag);

void life_fill(struct life *l, struct tamis_builder *b, uint32_t id);
void life_build_file(struct life *l, uint32_t id, const char *path);
/* A filter in a file of its own, or in one of the engine's. */
void life_own_file(struct life *l);
void life_unsynced_file(struct life *l);
uint32_t life_lone_create(struct life *l);
/* Opens the growing filter, replays, adds from two threads, commits, and may seal it,
 * close it, or leave it open until the process ends. */
void life_session(struct life *l, uint32_t id);
void life_close_all(struct life *l);

#endif
