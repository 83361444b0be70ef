/* The disk of the crash-state explorer: which states a power cut may leave.
 *
 * A file's content is durable as of its last sync. Every 512-byte sector that was
 * written since, by a system call or through a mapping, is on the disk or not, in any
 * of the versions that it has had; the length is any that it has had, or one in
 * between; a name means any of the files that it has meant since its directory was
 * synced, or none. Each name changes by itself, by any call: after a rename or a link
 * either may be there, both, or neither. Nothing prefers an order. Bytes that were
 * never written read as zeros.
 *
 * A directory is a file without bytes, and a name knows its directory: a durable file
 * is still lost if no name leads to it. */
#ifndef TAMIS_TESTS_CRASH_DISK_H
#define TAMIS_TESTS_CRASH_DISK_H

#include <stdio.h>
#include <stdlib.h>

#include "format/geometry.h"

/* ---- repeatable random numbers ---- */

struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n);
uint64_t mix64(uint64_t a, uint64_t b);

/* ---- files, names, and what they were since the last sync ---- */

enum {
    DISK_MAX_VERSIONS = 6,
    DISK_MAX_LENGTHS = 6,
    DISK_MAX_FILES = 96,
    DISK_MAX_NAMES = 160,
    DISK_MAX_MEANINGS = 6,
    DISK_NAME_BYTES = 80,
};

struct disk_sector {
    uint32_t at; /* number in the file */
    uint8_t n, n_syncing;
    uint8_t *version[DISK_MAX_VERSIONS]; /* oldest first */
    uint64_t hash[DISK_MAX_VERSIONS];
};

struct disk_file {
    uint64_t inode;          /* of the live file */
    uint8_t *durable, *live; /* what the disk holds; what programs see */
    size_t capacity;
    uint64_t durable_bytes, live_bytes;
    uint64_t durable_hash;
    uint64_t length[DISK_MAX_LENGTHS]; /* since the last sync */
    uint8_t n_lengths, n_lengths_syncing;
    struct disk_sector *dirty;
    size_t n_dirty, dirty_room;
    int32_t *dirty_at; /* a sector's place in dirty, or -1 */
    /* Pages whose write-back failed: clean as the kernel has it, and not on the disk,
     * until someone stores to them again. */
    uint8_t *lied;
    bool has_lied;
    bool is_dir;
    bool lmdb; /* a catalog: LMDB writes and syncs it by itself */
};

enum { DISK_ROOT = -1 }; /* the directory that is recorded */

struct disk_name {
    char text[DISK_NAME_BYTES];
    int16_t dir; /* a file that is a directory, or DISK_ROOT */
    bool temporary;
    int16_t file[DISK_MAX_MEANINGS]; /* [0] durable, the last one live; -1: none */
    uint8_t n;
};

struct disk {
    struct disk_file files[DISK_MAX_FILES];
    struct disk_name names[DISK_MAX_NAMES];
    size_t n_files, n_names;
};

void disk_free(struct disk *d);
/* A file that exists, durable as given (n_bytes 0: created just now). */
size_t disk_add_file(struct disk *d, uint64_t inode, const void *bytes, size_t n_bytes);
int disk_find_file(const struct disk *d, uint64_t inode);
/* The bytes that programs see in the file now; those that differ were stored since. By
 * a mapping: a sector may also have been written back with half of the words that
 * changed. */
void disk_store(struct disk_file *f, const uint8_t *bytes, uint64_t n_bytes,
                bool by_mapping);
/* Hashes a sector's content at its place; zeros, and bytes never written, hash to 0. */
uint64_t disk_sector_hash(uint32_t at, const uint8_t *bytes);
/* Bytes stored before the begin are durable after the end. */
void disk_sync_begin(struct disk_file *f);
void disk_sync_end(struct disk_file *f);
/* A sync that failed: some pages reached the disk, some are lost and look clean. */
void disk_lie(struct disk_file *f, struct rng *r);
/* The page was stored to, with or without a change. */
void disk_redirty(struct disk_file *f, uint64_t page);

/* From now on the name means that file, or none (-1). */
void disk_set_name(struct disk *d, int dir, const char *name, int file, bool durable);
int disk_live_name(const struct disk *d, int dir, const char *name);
void disk_sync_names(struct disk *d, int dir);

/* ---- states ---- */

enum disk_kind { DISK_NAME, DISK_LENGTH, DISK_SECTOR };

/* One thing of which the power cut leaves one of n_choices; 0 is the durable one. */
struct disk_item {
    enum disk_kind kind;
    uint16_t file;
    uint32_t index; /* of the name, or of the sector in f->dirty */
    uint32_t sector;
    uint8_t n_choices;
    uint64_t value[DISK_MAX_LENGTHS + 3]; /* lengths; hash differences of sectors */
};

enum { DISK_MAX_ITEMS = 4096 };
struct disk_items {
    size_t n;
    struct disk_item item[DISK_MAX_ITEMS];
};
struct disk_state {
    const struct disk *disk;
    const struct disk_items *items;
    uint8_t choice[DISK_MAX_ITEMS];
};

/* Lists the items that are undecided now; a length in between is drawn from r. */
void disk_items(const struct disk *d, struct rng *r, struct disk_items *out);
/* Hashes all that can be seen: names, and bytes that a name leads to. A file with only
 * a temporary name does not count, for no process opens it. */
uint64_t disk_hash(const struct disk_state *s);
int disk_state_file(const struct disk_state *s, size_t name); /* or -1 */
/* The file's bytes, written to `to` (f->capacity bytes of room); its length. */
uint64_t disk_image(const struct disk_state *s, size_t file, uint8_t *to);
void disk_describe(const struct disk_state *s, FILE *to);

#endif
