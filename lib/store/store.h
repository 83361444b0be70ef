/* What the files of lib/store share, one banner per source file. lib/internal.h is
 * the index of the rest. Above lmdb.h nothing here knows LMDB. */
#ifndef TAMIS_STORE_STORE_H
#define TAMIS_STORE_STORE_H

#include <pthread.h>

#include "lib/internal.h"
#include "lib/store/base/counters.h"
#include "format/record.h"

/* What the catalog knows of how far a filter has come. */
static inline struct bounds record_bounds(const struct record *r)
{
    return (struct bounds){.sequence = r->min_sequence,
                           .generation = r->generation,
                           .watermark = r->watermark,
                           .n_stages = r->min_stages};
}

/* ==== names.c: a map from names to numbers ==== */

/* Keeps pointers to the names, not copies. Zeroed is empty. */
struct names {
    struct name_slot *slots;
    size_t n, n_slots;
};
int names_set(struct names *s, const void *name, size_t n_bytes, uint32_t value);
uint32_t names_get(const struct names *s, const void *name, size_t n_bytes); /* or 0 */
void names_clear(struct names *s);

/* ==== files.c: the directory of filters ==== */

enum { FILTER_NAME_BYTES = 2 * UUID_BYTES + 7, STORE_PATH_BYTES = 4096 };

/* STORE/filters, one descriptor for all that use it: snapshots outlive stores. */
struct filters_dir {
    atomic_size_t refs;
    int fd;
    struct named *named; /* by its absolute path, for looks */
    char path[];
};
/* `named` leads from the directory `at`, or is absolute. */
int filters_dir_open(int store_fd, const char *store_path, int at, const char *named,
                     struct filters_dir **out);
struct filters_dir *filters_dir_hold(struct filters_dir *d);
void filters_dir_release(struct filters_dir *d);

void filter_file_name(const uint8_t uuid[UUID_BYTES], char name[FILTER_NAME_BYTES]);
/* Is this "<uuid>.tamis" and `rest`? */
bool filter_name_parse(const char *name, uint8_t uuid[UUID_BYTES], const char **rest);
/* Is that the rest of a temporary's name? */
bool filter_rest_temporary(const char *rest);
/* "DIR/NAME" for messages, cut if too long. */
void filters_dir_path(const struct filters_dir *d, const char *name,
                      char path[STORE_PATH_BYTES]);
/* For a directory that is going to be locked: a forked child must not keep the lock. */
int dir_open_guarded(int dir, const char *name, struct io_guarded_fd *g);
/* Unlocks it first: a child may not have closed its copy yet. */
void dir_close_guarded(struct io_guarded_fd *g);
int dir_lock(int fd, int how); /* flock(), whatever signals come; an errno */
/* 1 if it is a directory of nothing, 0 if something is in it, else -1. */
int dir_is_empty(int dir, const char *name);
void filter_file_unlink(int dir, const uint8_t uuid[UUID_BYTES]);
void uuid_random(uint8_t uuid[UUID_BYTES]);
/* The first n_bytes of a file into an empty one; ERR_DAMAGED if there are fewer.
 * *unreadable: it was the source that failed. */
int filter_file_copy(int from, int to, uint64_t n_bytes, bool *unreadable);

/* ==== file.c, walk.c: what LMDB may map ========================== */

/* The key of the meta record. */
#define CATALOG_META_KEY "store"

int catalog_file_check(int fd, const char *path, struct tamis_diag *diag);
/* The same, with a look at every page of its trees. */
int catalog_file_scrub(int fd, const char *path, struct tamis_diag *diag);
/* How large its pages are; as LMDB would make them here if the first one is lost. */
size_t catalog_page_bytes(int fd);
/* The newest transaction that the file holds. A writer may be at work: when that is
 * below `known` the file is read again. Below 0 if it is no catalog any more, or an
 * errno. */
int catalog_file_newest(int fd, uint64_t known, uint64_t *newest);
/* The trees as of one transaction, which nobody may write over meanwhile: the caller
 * reads as of it, or holds the right to write. EAGAIN: the file knows it no more. */
int catalog_file_walk(int fd, const char *path, uint64_t txn, struct tamis_diag *diag);

/* A tree, of free pages [0] or of databases [1], as LMDB notes it. */
struct catalog_tree {
    uint32_t page_bytes; /* in [0] */
    uint16_t flags, depth;
    uint64_t n_branch, n_leaf, n_overflow, n_entries, root;
};
struct catalog_state {
    struct catalog_tree trees[2];
    uint64_t last_page, txn;
};
/* 0, ERR_DAMAGED, or an errno if they can't be read. */
int catalog_walk(int fd, size_t page_bytes, uint64_t file_bytes,
                 const struct catalog_state *s);

/* ==== origin.c: is the store that the path names still the one that is open? ==== */

struct origin_file {
    int fd; /* keeps the inode from being used again; -1: there is no such file */
    uint64_t device, inode;
    char *path; /* from origin.at */
};
/* One for each catalog that is open; snapshots hold it, too, and may outlive the store.
 */
struct origin {
    atomic_size_t refs;
    struct looks looks;
    _Atomic uint64_t newest; /* a transaction that the file has had */
    int at; /* the directory from which the paths lead; AT_FDCWD: they are absolute */
    struct origin_file catalog, lock;
    struct io_guarded_fd users; /* the catalog once more, for the lock that says which */
    bool has_users;             /* lock file is used: no forked child keeps it */
    char *filters; /* the directory */
};
/* All but origin_new() take NULL: of a catalog that has no name yet. */
int origin_new(const char *store_path, int catalog_fd, struct origin **out);
struct origin *origin_hold(struct origin *o);
void origin_release(struct origin *o);
/* Before LMDB opens its lock file: ERR_REPLACED if anyone uses the catalog with another
 * one. Until origin_leave() others are told which one is used here. */
int origin_take_lock_file(struct origin *o, struct tamis_diag *diag);
void origin_leave(struct origin *o);
/* 0; ERR_REPLACED; an errno if nobody can say. Takes no lock. */
int origin_check_files(struct origin *o, struct tamis_diag *diag);
/* The same, and the file's newest transaction is one of low .. high. */
int origin_check(struct origin *o, uint64_t low, uint64_t high,
                 struct tamis_diag *diag);
int origin_fail(const struct origin *o, struct tamis_diag *diag); /* ERR_REPLACED */
/* ERR_REPLACED: it is `newest`, and should be `known`. */
int origin_fail_newest(struct origin *o, uint64_t newest, uint64_t known,
                       struct tamis_diag *diag);
/* The file has had this transaction: it must not fall below it. */
void origin_note(struct origin *o, uint64_t number);
void origin_look(struct origin *o, uint64_t now);

/* As of the last look: looks_known(). */
static inline enum tamis_reason origin_known(const struct origin *o)
{
    return o ? looks_known(&o->looks) : TAMIS_NO_REASON;
}

/* Looks if it is due, so that what is known is of a second ago at most. Waits for
 * nobody. The clock, for filters that are looked at next; 0 where there is no store. */
static inline uint64_t origin_clock(struct origin *o)
{
    uint64_t now = o ? look_clock() : 0;
    if (o && now >= atomic_load_explicit(&o->looks.look_after, memory_order_acquire))
        origin_look(o, now);
    return now;
}

static inline enum tamis_reason origin_now(struct origin *o)
{
    origin_clock(o);
    return origin_known(o);
}

/* ==== catalog.c: the catalog, one per process and file, and transactions ==== */

struct catalog {
    struct catalog *next; /* in the registry */
    uint64_t device, inode;
    uint64_t dir_device, dir_inode; /* of STORE */
    size_t refs;                    /* guarded by the registry's lock */
    unsigned fork_epoch;
    struct origin *origin; /* NULL: in no registry */
    struct MDB_env *env;
    unsigned meta_db, segments_db;
    bool read_only;
    bool unlocked; /* a read-only file system: no reader table protects us */
    /* Held for reading by every transaction, for writing while the map moves. */
    pthread_rwlock_t map_lock;
    bool unmapped; /* under map_lock: the map could not be moved, all fails now */
    struct meta meta;
    struct tamis_domain domain;
    struct filters_dir *filters;
    struct ledger *ledger;
    pthread_mutex_t cache_lock;
    struct tamis_snapshot *cached; /* the newest snapshot, under cache_lock */
    void (*release_cached)(struct tamis_snapshot *s); /* set with it */
    atomic_bool swept;
    /* STORE, with a shared flock while the store is open: its catalog is replaced only
     * by who gets it exclusively. */
    struct io_guarded_fd turn;
    bool has_turn;
    char path[]; /* of the store, for messages */
};

/* A transaction, as its function sees it. */
struct catalog_txn {
    struct catalog *catalog;
    struct MDB_txn *txn;
    int failure; /* LMDB's code of the first call that failed */
    bool wrote;  /* so that committing it makes a transaction */
};
/* What runs inside a transaction. It may run again from the start, if the map had
 * to grow. Anything but 0 rolls a write back. */
typedef int catalog_fn(struct catalog_txn *t, void *ctx, struct tamis_diag *diag);
typedef int catalog_each_fn(void *ctx, const void *name, size_t name_bytes,
                            const uint8_t *value, size_t value_bytes);

int catalog_read(struct catalog *c, catalog_fn *fn, void *ctx, struct tamis_diag *diag);
/* ERR_VERSION if the store has a feature now that this version must not write.
 * *unsure (may be NULL): the commit itself failed, so that what is on the disk may be
 * the old state or the new one. */
int catalog_write(struct catalog *c, catalog_fn *fn, void *ctx, bool *unsure,
                  struct tamis_diag *diag);
/* Is this the last committed transaction, of any process? No system call. */
bool catalog_is_at(struct catalog *c, uint64_t number);
/* Do the path, the catalog file and LMDB's lock file belong together? ERR_REPLACED. */
int catalog_agrees(struct catalog *c, struct tamis_diag *diag);

/* ==== values.c: records and the meta record ==== */

/* Inside a transaction. Values are LMDB's, as long as nothing is written; one that is
 * longer than any record comes as one of no bytes. */
int catalog_get(struct catalog_txn *t, const void *name, size_t name_bytes,
                const uint8_t **value, size_t *value_bytes, struct tamis_diag *diag);
int catalog_add(struct catalog_txn *t, const void *name, size_t name_bytes,
                const uint8_t *value, size_t value_bytes, struct tamis_diag *diag);
int catalog_replace(struct catalog_txn *t, const void *name, size_t name_bytes,
                    const uint8_t *value, size_t value_bytes, struct tamis_diag *diag);
int catalog_delete(struct catalog_txn *t, const void *name, size_t name_bytes,
                   struct tamis_diag *diag);
/* In the order of names; stops at the first result that is not 0. */
int catalog_each(struct catalog_txn *t, catalog_each_fn *fn, void *ctx,
                 struct tamis_diag *diag);
int catalog_meta(struct catalog_txn *t, struct meta *m, struct tamis_diag *diag);
int catalog_set_meta(struct catalog_txn *t, const struct meta *m,
                     struct tamis_diag *diag);
/* Is every segment of the engine listed? Changes the flag, and nothing if it is so. */
int catalog_set_complete(struct catalog_txn *t, bool complete, struct tamis_diag *diag);
/* The bytes, with what this version does not know in them. */
int catalog_meta_value(struct catalog_txn *t, const uint8_t **value,
                       size_t *value_bytes, struct tamis_diag *diag);
int catalog_set_meta_value(struct catalog_txn *t, const uint8_t *value,
                           size_t value_bytes, struct tamis_diag *diag);
uint64_t catalog_txn_number(const struct catalog_txn *t);
int catalog_usage(struct catalog *c, uint64_t *n_segments, uint64_t *n_bytes,
                  struct tamis_diag *diag);

/* ==== env.c: made, opened, closed ==== */

/* c has its path, device and inode; `file` is LMDB's. Opens for reading only where it
 * must, or if c->read_only says so. */
int catalog_env_open(struct catalog *c, const char *file, struct tamis_diag *diag);
/* Makes one, with what `fill` (may be NULL) puts into it, and closes it. */
int catalog_env_create(struct catalog *c, const char *file, const struct meta *m,
                       catalog_fn *fill, void *ctx, struct tamis_diag *diag);
void catalog_env_close(struct catalog *c);

/* ==== copies.c: other copies of this library in the process ==== */

/* `dir` is STORE, of its own open. ERR_BUSY: another copy, or another catalog of this
 * one, has the store open. Who enters has to leave, whatever the result is. */
int copies_enter(int dir);
void copies_leave(int dir);

/* ==== load.c: one catalog, before it is in the registry ==== */

int store_dir_open(const char *path, int *dir, struct tamis_diag *diag);
/* STORE/catalog.lmdb, for reading; ERR_NO_STORE where there is none. */
int registry_open_file(int dir, const char *path, int *fd, struct tamis_diag *diag);
/* ERR_NOT_TAMIS if LMDB's lock file is there and not a regular file: LMDB would write
 * to whatever it is, or points to. */
int registry_check_lock_file(int dir, const char *path, struct tamis_diag *diag);
/* catalog_file_check() or _scrub(), of the file that the catalog is to have. */
int registry_check_file(const struct catalog *c, int fd,
                        int (*check)(int, const char *, struct tamis_diag *),
                        struct tamis_diag *diag);
struct stat;
/* Of this file, not open yet; NULL: no memory. */
struct catalog *catalog_alloc(const char *store_path, const struct stat *st);
/* Opens it, and reads what does not change. `dir` is STORE. */
int catalog_load(struct catalog *c, int dir, struct tamis_diag *diag);
void catalog_free(struct catalog *c);
/* For repair, which has STORE locked exclusively: the catalog as it is, in no registry,
 * every page of it looked at before, for reading only. */
int registry_open_alone(const char *store_path, int dir, struct catalog **out,
                        struct tamis_diag *diag);
void registry_close_alone(struct catalog *c);

/* ==== create.c: a new catalog file ==== */

/* Creates STORE/catalog.lmdb, whole or not at all. `dir` is STORE, open. `fill` (may be
 * NULL) puts the records into it. */
int registry_create(const char *store_path, int dir, const struct meta *m,
                    catalog_fn *fill, void *ctx, struct tamis_diag *diag);
/* The same in the place of one that is there, if any; durable on return. The caller has
 * STORE locked exclusively, or alone knows its name. */
int registry_replace(const char *store_path, int dir, const struct meta *m,
                     catalog_fn *fill, void *ctx, struct tamis_diag *diag);
/* What it is called until it is whole: this, eight hex digits and ".tmp". */
#define CATALOG_TEMP "catalog.lmdb."
enum { CATALOG_TEMP_BYTES = 40 };

/* ==== registry.c: one catalog per process and file ==== */

int registry_open(const char *store_path, struct catalog **out,
                  struct tamis_diag *diag);
struct catalog *registry_hold(struct catalog *c);
void registry_release(struct catalog *c);

/* ==== store.c ==== */

struct tamis_store {
    struct catalog *catalog;
};
/* ERR_RANGE for NULL, ERR_FORKED in a forked child, ERR_READ_ONLY if `writing`. */
int store_usable(const struct tamis_store *s, bool writing, struct tamis_diag *diag);
/* Without slashes at the end, so that the parent can be told; malloc'd. */
char *plain_path(const char *path);

/* ==== create.c ==== */

/* "catalog.lmdb.<8 hex digits>.tmp", or LMDB's lock file beside it? */
bool store_catalog_temporary(const char *name);

/* ==== sweep.c: files that nothing names ==== */

/* Removes them; the caller holds the exclusive lock of `dir`. */
void sweep_orphans(struct catalog *c, int dir);

/* ==== edit.c, put.c, commit.c ==== */

enum edit_kind { EDIT_PUT, EDIT_DROP, EDIT_RETAIN };

struct edit_op {
    enum edit_kind kind;
    bool has_file; /* put: this edit wrote the file of this uuid */
    bool attached;
    bool only;  /* drop: if the record's filter is this one */
    bool bound; /* drop: if the record's binding is `value` */
    uint8_t uuid[UUID_BYTES];
    struct names keep; /* retain */
    size_t name_bytes, value_bytes;
    uint8_t bytes[]; /* name, record; bound drop: name, binding; retain: all names */
};

struct tamis_edit {
    struct catalog *catalog;
    unsigned fork_epoch;
    struct io_guarded_fd dir; /* its own open of filters/, with a shared flock */
    pthread_mutex_t mutex;    /* over all below */
    struct edit_op **ops;
    size_t n_ops, max_ops;
    size_t n_retains, n_attached;
    struct names touched; /* name -> EDIT_PUT + 1 or EDIT_DROP + 1, the latest */
};
int edit_usable(struct tamis_edit *e, struct tamis_diag *diag);
/* Would the segment exist if the edit were committed now? ERR_EXISTS if it should
 * not, ERR_NO_SEGMENT if it should. The catalog may change until commit. */
int edit_expect(struct tamis_edit *e, const void *name, size_t name_bytes, bool present,
                struct tamis_diag *diag);
/* Takes over the operation, after edit_expect() once more; frees it on failure. */
int edit_append(struct tamis_edit *e, struct edit_op *op, struct tamis_diag *diag);
struct edit_op *edit_op_new(enum edit_kind kind, const void *name, size_t name_bytes,
                            const struct record *r);
void edit_op_free(struct edit_op *op);
void edit_unlink_written(const struct tamis_edit *e);
void edit_free(struct tamis_edit *e);

/* ---- put.c, for derive.c as well ---- */

/* Is the name free, and are the options in order? They are copied to *opt. */
int edit_put_begin(struct tamis_edit *e, const void *name, size_t name_bytes,
                   struct tamis_segment_options *opt,
                   const struct tamis_segment_options *theirs, struct tamis_diag *diag);
struct record edit_record(const struct commit *c, double target_error, uint64_t created,
                          uint32_t rank);
void edit_record_range(struct record *r, const struct key_range *range);
/* Appends the operation; what it wrote goes if that fails. */
int edit_put_append(struct tamis_edit *e, const void *name, size_t name_bytes,
                    const struct record *r, bool attached, struct tamis_diag *diag);
/* rc; whoever failed to write the file knows its name alone. */
int edit_not_put(const struct tamis_edit *e, int rc, const char *file,
                 struct tamis_diag *diag);

/* ==== attach.c ==== */

/* Copies a sealed filter file into `dir` under its UUID's name and checks every page
 * of the copy; h is the copy's header. */
struct attach {
    const struct catalog *catalog;
    int dir;
    const char *path; /* of the source */
    const void *name, *binding;
    size_t name_bytes, binding_bytes;
};
int attach_copy(const struct attach *a, struct header *h, struct tamis_diag *diag);

/* ==== copy.c: one file of a backup ==== */

/* Copies the filter of this record from one descriptor to another, at any time, a
 * writer being at work or not. *left: why the copy can't serve, and is to be left out;
 * what is wrong with the target is the result. *n_damaged: pages that fail. */
struct copied {
    const char *left;
    uint64_t n_bytes, n_damaged;
    struct tamis_diag diag; /* what `left` is about */
};
int backup_copy(const struct catalog *c, const struct record *r, int from, int to,
                const char *path, struct copied *out);

/* ==== repair.c and its kin, orphans.c (public calls; inside.h has the rest) ==== */

/* ==== entry.c: one segment, shared by snapshots ==== */

struct entry {
    atomic_size_t refs;
    _Atomic(struct tamis_filter *) filter; /* NULL until first used */
    atomic_int failure;                    /* why it can't be opened, for good */
    bool borrowed;                         /* the filter is the caller's */
    bool has_range;
    uint16_t state;          /* RECORD_*, or 0: the record is unreadable */
    int refusal;             /* why, as a public code */
    struct account *account; /* of its filter; of those before and after it, too */
    uint32_t rank;
    uint64_t watermark;
    uint32_t name_bytes, value_bytes;
    uint8_t bytes[]; /* name, record as in the catalog */
};
struct entry *entry_new(const void *name, size_t name_bytes, const uint8_t *value,
                        size_t value_bytes);
struct entry *entry_hold(struct entry *e);
void entry_release(struct entry *e);
bool entry_is(const struct entry *e, const uint8_t *value, size_t value_bytes);
/* Why a filter of this header is not the one that the record, of the same UUID, means
 * (SPEC.md section 8.3); NULL if it is. */
const char *record_mismatch(const struct record *r, const struct header *h);
/* The open filter; opens it now if need be. */
int entry_filter(struct entry *e, const struct filters_dir *dir,
                 const struct tamis_domain *domain, struct tamis_filter **out,
                 struct tamis_diag *diag);
/* The same for probes: NULL and a reason; does not repeat what failed for good. */
struct tamis_filter *entry_filter_or_reason(struct entry *e,
                                            const struct filters_dir *dir,
                                            const struct tamis_domain *domain,
                                            enum tamis_reason *why);

static inline const struct record_disk *entry_record(const struct entry *e)
{
    return (const struct record_disk *)(const void *)(e->bytes + e->name_bytes);
}

static inline const uint8_t *entry_first(const struct entry *e, size_t *n_bytes)
{
    *n_bytes = le16_get(entry_record(e)->first_bytes);
    return e->bytes + e->name_bytes + RECORD_HEAD_BYTES;
}

static inline const uint8_t *entry_last(const struct entry *e, size_t *n_bytes)
{
    size_t n_first;
    const uint8_t *first = entry_first(e, &n_first);
    *n_bytes = le16_get(entry_record(e)->last_bytes);
    return first + n_first;
}

/* ==== planes.c: what a snapshot has at hand of all its segments ==== */

/* What a segment requires of a key and of a target, in numbers: `first` and `last` are
 * key_prefix() of its range, or 0 and UINT64_MAX. */
struct gate {
    uint64_t first, last, watermark;
};

struct planes {
    const struct kernel *kernel;
    struct plane *plane; /* by index; to be looked at if it is ready */
    struct gate *gate;
    bool any_range;
    /* A bit per segment: its file was opened, and is the one that its record means, so
     * that the record's range may speak. For ever. */
    _Atomic uint64_t *opened;
    _Atomic uint64_t *ready; /* a bit per segment, as of `epoch` */
    _Atomic uint64_t *deep;  /* of those: which have more than one lane */
    _Atomic uint64_t epoch;
    _Atomic unsigned changing; /* 1 + fork epoch of the thread that changes them */
};
int planes_make(struct tamis_snapshot *s); /* of its entries; ENOMEM */
void planes_free(struct planes *p);
/* May `ready` be believed now? */
bool planes_current(struct planes *p);
/* A segment was probed with care: perhaps that is not needed any more. */
void planes_offer(struct tamis_snapshot *s, size_t index);

/* ==== snapshot.c, segment.c ==== */

struct tamis_snapshot {
    atomic_size_t refs;
    uint64_t serial; /* from 1 on, in this process: what its targets carry */
    uint64_t number; /* of the transaction that it shows */
    bool complete;
    struct tamis_domain domain;
    struct filters_dir *dir; /* NULL: filters of the caller's */
    struct origin *origin;   /* the same */
    size_t n;
    struct entry **entries; /* by rank, then name */
    struct names by_name;   /* -> index + 1, or NAME_TWICE */
    struct planes planes;
    struct counts counts;
    struct ledger *ledger;                       /* NULL: filters of the caller's */
    struct tamis_snapshot *next_live, **to_live; /* under the ledger's lock */
};
#define NAME_TWICE UINT32_MAX

/* ==== probe_one.c: one segment, with care ==== */

/* The first eight bytes as a number, zeros behind: of two keys with different ones the
 * smaller key has the smaller one. */
uint64_t key_prefix(const void *key, size_t n_bytes);
/* Does a range prove that the segment has no such key? */
bool outside_range(const struct entry *e, const struct tamis_key *key);
/* What refuses every probe of a target, before any file is looked at. */
enum tamis_reason target_reason(const struct tamis_snapshot *s,
                                const struct tamis_target *t, uint64_t tag);
/* `now`: origin_clock(). TAMIS_NO_REASON means absent; *by_range (false before) that a
 * key range said so. */
enum tamis_reason probe_target(struct tamis_snapshot *s, const struct tamis_target *t,
                               uint64_t now, const struct tamis_key *key,
                               bool *by_range);

/* ==== stats.c: sums of what was counted (public calls, and) ==== */

/* Of a snapshot that is complete, and of one that nobody has any more. */
int stats_join(struct tamis_snapshot *s); /* ENOMEM */
void stats_leave(struct tamis_snapshot *s);

/* ==== answers.c: answers are counted, if counts_on() ==== */

/* One key, one segment, which need not be one of the snapshot's. */
void count_one(struct tamis_snapshot *s, const struct tamis_target *t,
               enum tamis_reason reason, bool by_range);
/* Many keys with one answer, of one segment. */
void count_refused(struct tamis_snapshot *s, const struct tamis_target *t,
                   enum tamis_reason reason, size_t n);
/* Up to 64 keys, or n, that the filter of a segment was asked for. */
void count_word(struct tamis_snapshot *s, const struct tamis_target *t,
                struct tamis_filter *f, const uint64_t *hashes, uint64_t absent,
                uint64_t maybe);
void count_batch(struct tamis_snapshot *s, const struct tamis_target *t,
                 struct tamis_filter *f, const uint64_t *hashes, size_t n,
                 const uint64_t *absent);
/* A bit for each answer that a key range gave. */
void count_excluded(struct tamis_snapshot *s, uint64_t mask);
/* By what is at hand: 64 keys of one segment; one key of 64 segments. */
void count_keys(struct sheet *sheet, uint32_t slot, uint64_t absent, uint64_t hits);
void count_of_list(struct sheet *sheet, const struct tamis_target *targets,
                   uint64_t absent, uint64_t hits);
void count_of_all(struct sheet *sheet, size_t word, uint64_t asked, uint64_t absent,
                  uint64_t hits);

/* ==== probe_many.c, probe_keys.c: many segments, by what is at hand ==== */

/* Does the target mean a segment of this snapshot? */
static inline bool target_here(const struct tamis_snapshot *s,
                               const struct tamis_target *t)
{
    return !t->refusal && t->snapshot == s->serial && t->slot - 1U < s->n;
}

/* Would target_reason() find nothing against this target, if the key is of the
 * snapshot's domain, and its segment's plane is ready or a range excludes the key?
 * False only means that it is to be asked. */
static inline bool target_plain(const struct tamis_snapshot *s,
                                const struct tamis_target *t)
{
    return target_here(s, t) &&
           s->planes.gate[t->slot - 1].watermark >= t->min_watermark;
}

static inline uint64_t planes_word(_Atomic uint64_t *bits, size_t word)
{
    return atomic_load_explicit(&bits[word], memory_order_acquire);
}

static inline bool planes_bit(_Atomic uint64_t *bits, size_t index)
{
    return planes_word(bits, index / 64) >> (index % 64) & 1;
}

/* Of a key with this prefix and a segment of which target_plain() holds. */
static inline bool outside_gate(const struct tamis_snapshot *s, size_t index,
                                uint64_t prefix, const struct tamis_key *key)
{
    const struct gate *g = &s->planes.gate[index];
    if (!planes_bit(s->planes.opened, index))
        return false;
    if (prefix > g->first && prefix < g->last)
        return false;
    return prefix < g->first || prefix > g->last ||
           outside_range(s->entries[index], key);
}

#endif
