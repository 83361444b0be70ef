/* Tests of the store as text. A scene is a name and steps; it is played on a new store
 * "s", which is opened when a step asks it something, and closed when one wants its
 * files:
 *
 *     play("a bad list goes alone",
 *          "put a 0 2000 list=64; put b 5000 2000; flip a.list 4196;"
 *          "repair; is quarantined=1; says its list: 1 of; unlisted a; settled");
 *
 * Each verb has its words in the comment above it. A failure names the scene and the
 * step. Steps that change a segment are edits of their own, unless `begin` has begun
 * one. */
#ifndef TAMIS_TESTS_SHOP_H
#define TAMIS_TESTS_SHOP_H

#include "../repair_support.h"
#include "../store_lists.h"
#include "../store_packs.h"
#ifndef TAMIS_TESTS_SHOP_VERBS_H /* else this is part of the shop */
#include "../still_disk.h"
#endif

enum { SHOP_FILES = 40 };

extern struct shop {
    const char *scene, *at; /* what is played; NULL: nothing */
    char dir[16];           /* "s", or a copy of it */
    struct tamis_store *store;
    struct tamis_edit *edit, *edits[4]; /* edit: that steps belong to */
    struct tamis_writer *writer;
    struct tamis_snapshot *held;
    struct tamis_diag diag; /* of the last call */
    uint64_t tree;
    struct {
        const char *word;
        uint64_t value;
    } count[32];
    size_t n_counts;
    struct {
        char name[64], path[700];
    } file[SHOP_FILES];
    size_t n_files;
} shop;
extern struct record noted; /* by the step `note` */

struct tamis_store *opened(void);
void closed(void);

/* "a": the filter of a. "a.list". "aside:a": where repair sets that aside, and
 * "aside2:a", if something is there. "pack", "dead", "catalog", "lock". "=x": x beside
 * the store. Others are names in the store. */
const char *path_at(const char *word);

uint64_t count_named(const char *word); /* of the last report */
uint32_t index_named(struct tamis_snapshot *snap, const char *name);

/* Into the catalog; with a wrong byte at rotten_at, if it is not 0. Then the store is
 * closed, but for an edit under way. */
void put_record(const char *name, const struct record *r, size_t rotten_at);

/* ---- scenes ---- */

/* Begins a scene with an empty store "s", in an empty directory. */
void scene(const char *name);

/* Plays steps on; what was made before stays. */
__attribute__((format(printf, 1, 2))) void steps(const char *text, ...);

/* Ends what a scene has left open. */
void scene_ends(void);

#define play(name, ...)                                                                \
    do {                                                                               \
        scene(name);                                                                   \
        steps(__VA_ARGS__);                                                            \
        scene_ends();                                                                  \
    } while (0)

int shop_closes(void **state);

/* Scenes may be played in it; the last one ends with it. */
#define TEST_OF_SCENES(name)                                                           \
    static void scenes_##name(void **state);                                           \
    TEST_WITH(test_dir_create, shop_closes, name)                                      \
    {                                                                                  \
        scenes_##name(state);                                                          \
        scene_ends();                                                                  \
    }                                                                                  \
    static void scenes_##name(void **state)

/* a: sealed. g: growing. w: grown, then sealed. */
#define AGW                                                                            \
    "put a 0 100 binding=A rank=3 watermark=7; growing g; grow g 1000 1000 5;"         \
    "growing w; grow w 3000 1000 6; writer w; seal 7; end;"
#define HAS_AGW "has a 0 100; has g 1000 1000; has w 3000 1000;"

/* Rows of a table: what is made, what becomes of it, what must be so then. */
struct scene_row {
    const char *name, *made, *harm, *then;
};

void play_rows(const struct scene_row *rows, size_t n);
#define PLAY_ROWS(rows) play_rows(rows, N_OF(rows))

#endif
