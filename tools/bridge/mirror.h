/* A store remembers which database it mirrors, by the bindings of the segments that a
 * bridge put:
 *
 *     leveldb:0123456789abcdef/FILE
 *     rocksdb:0123456789abcdef/FILE
 *
 * The 16 hex digits are the XXH3-64 (seed 0) of the database's identity. FILE
 * identifies the file of the segment; if the file cannot be identified, the binding is
 * the part before the '/' alone. This header needs nothing but tamis.h, because the
 * RocksDB shim uses it. */
#ifndef TAMIS_BRIDGE_MIRROR_H
#define TAMIS_BRIDGE_MIRROR_H

#include <stdbool.h>

#include <tamis.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MIRROR_TAG_BYTES = 25 };

/* tag = "rocksdb:<16 hex digits>"; the name of the engine has 7 letters. */
void tamis_mirror_tag(char tag[MIRROR_TAG_BYTES], const char *engine,
                      const void *identity, size_t n_bytes);

enum mirror_owner {
    MIRROR_THIS,       /* the database of the tag */
    MIRROR_DATABASE,   /* another database of this engine */
    MIRROR_ENGINE,     /* a database of the other engine */
    MIRROR_OTHER,      /* no bridge put it */
    MIRROR_UNREADABLE, /* its record cannot be read */
    N_MIRROR_OWNERS
};
enum mirror_owner tamis_mirror_owner(const char *tag,
                                     const struct tamis_segment_info *info);
/* "another RocksDB database", and the like. */
const char *tamis_mirror_owner_words(const char *tag, enum mirror_owner owner);
/* Do the bindings name the same file, whichever database they name? */
bool tamis_mirror_same_file(const struct tamis_segment_info *info, const char *binding);

/* The number of the segment of this name, and what it is; SIZE_MAX: there is none. */
size_t tamis_mirror_find(struct tamis_snapshot *snapshot, const char *name,
                         size_t n_bytes, struct tamis_segment_info *info);

/* Does the store mirror another database? Then `words` is a part of a line about it,
 * else empty. */
enum { MIRROR_WORDS_BYTES = 512 };
bool tamis_mirror_refuses(struct tamis_snapshot *snapshot, const char *tag,
                          char words[MIRROR_WORDS_BYTES]);

/* For a drop or an update: if the segment still has this binding, else the commit fails
 * with ERR_MISMATCH. An unreadable segment is dropped by its name. */
struct tamis_drop_if tamis_mirror_same(const struct tamis_segment_info *info);

/* Confirms a list that `tamis repair` made anew, when each file was compared with its
 * segment, and no other segment is listed: files in quarantine/ say no more. */
int tamis_mirror_confirm(struct tamis_store *store, struct tamis_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
