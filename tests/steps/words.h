/* Shared by the files of words; words.c has the table. */
#ifndef TAMIS_TESTS_STEPS_WORDS_H
#define TAMIS_TESTS_STEPS_WORDS_H

#include "tests/steps/steps.h"

struct object *first_object(struct player *p, const struct step *s);
size_t number_of(const struct player *p, const struct object *o);
bool is_sealed(const struct object *o);
/* FROM N; FIRST_CAPACITY FACTOR ERROR. */
struct keyset numbers_of(const struct step *s);
struct tamis_growth growth_of(const struct step *s);
/* Each growing filter has a log of keys of its own. */
struct keyset log_of(const struct player *p, const struct object *o);
int fill_builder(struct player *p, struct tamis_builder *b, const struct keyset *keys);

struct tamis_snapshot *snapshot_now(struct player *p);
void keyset_join(struct keyset *to, const struct keyset *from);

/* ---- asks.c ---- */
int run_read(struct player *p, const struct step *s);
int run_see(struct player *p, const struct step *s);
int run_unlock(struct player *p, const struct step *s);
int run_warm(struct player *p, const struct step *s);
int run_derive_file(struct player *p, const struct step *s);
int run_compare(struct player *p, const struct step *s);
int run_info(struct player *p, const struct step *s);
int run_prepare(struct player *p, const struct step *s);
int run_guard(struct player *p, const struct step *s);
int run_plan(struct player *p, const struct step *s);
int run_backup(struct player *p, const struct step *s);

/* ---- damage.c ---- */
int damage_file(struct player *p, const struct step *s);
int damage_twice(struct player *p, const struct step *s);
int damage_catalog(struct player *p, const struct step *s);
int damage_litter(struct player *p, const struct step *s);
int damage_in_way(struct player *p, const struct step *s);
int damage_keep(struct player *p, const struct step *s);

/* ---- writers.c ---- */
int run_lone(struct player *p, const struct step *s);
int run_writer(struct player *p, const struct step *s);
int run_alone(struct player *p, const struct step *s);
int run_replay(struct player *p, const struct step *s);
int run_add(struct player *p, const struct step *s);
int run_watch(struct player *p, const struct step *s);
int run_commit(struct player *p, const struct step *s);
int run_seal(struct player *p, const struct step *s);
int run_shut(struct player *p, const struct step *s);
int run_build(struct player *p, const struct step *s);
int run_embed(struct player *p, const struct step *s);

#endif
