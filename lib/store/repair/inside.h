/* A repair from inside: what its files share. README.md has the files, and the order of
 * its steps, which may be cut anywhere and begun again. */
#ifndef TAMIS_STORE_REPAIR_H
#define TAMIS_STORE_REPAIR_H

#include "lib/store/catalog/listing.h"

/* A segment's record, now and after the repair. */
struct repair_segment {
    uint8_t *memory; /* of the pieces */
    /* before: NULL if the record is new; value: as it is by now, not NULL. */
    struct piece name, before, value;
    bool changed;
    bool lost_uuid; /* the record was damaged, and its file is unknown */
    /* Without a catalog: 1 + the number of the file that is its own, or 0; do files
     * claim it that are not the same filter? The set id of its filter. */
    size_t own;
    bool disputed;
    uint8_t set_id[UUID_BYTES];
};

/* A file in filters/. */
struct repair_file {
    char name[256];
    uint8_t uuid[UUID_BYTES]; /* by its name */
    bool temporary;
    bool dead;    /* the tombstones of a shared file */
    bool strange; /* a directory, a link, ... */
    /* Only when a catalog is made anew: a list, and what is known of a good one; what
     * is wrong with the pages of a filter, malloc'd. */
    bool is_list;
    uint8_t hash_bits;
    uint64_t digest; /* of its stage table */
    char *rotten;
    bool disputed; /* it is shared, and another file claims a segment of it, too */
    bool named;    /* by a record */
    bool suspect;  /* a damaged record may name it */
    bool aside;    /* to quarantine/ */
    bool unlink;   /* from filters/, at the end */
};

/* How far it got. Findings are told accordingly. */
enum repair_step { STEP_DECIDED, STEP_CHANGED, STEP_DONE };

struct repair {
    struct tamis_repair_options opt;
    struct tamis_repair_report *report;
    struct tamis_diag *diag; /* the caller's; may be NULL */
    const char *path;        /* STORE */
    int store_fd;
    struct io_guarded_fd filters; /* locked exclusively: no edit is under way */
    bool has_filters;
    struct tamis_store *store; /* NULL unless the catalog is good */
    struct io_guarded_fd turn; /* STORE, locked exclusively, if `held` */
    bool held;
    bool unsure;    /* some record can't be read: no file is an orphan */
    bool doubtful;  /* a record's name may be wrong, and its segment not listed */
    bool disagrees; /* the catalog still does not agree on a shared file, */
    bool relists;   /* or lists its segments anew */
    struct meta meta;
    struct names remade;             /* segments whose filters are made from lists, */
    struct tamis_snapshot *snapshot; /* which has their names */
    /* Names that are claimed: 1 + the number of a segment, or from FIRST_COLUMN on the
     * number of a segment of shared files. */
    struct names claimed;
    struct repair_segment *segments;
    size_t n_segments, max_segments;
    struct shared_file *shared; /* files that many segments share */
    size_t n_shared;
    struct kept_names *kept_names;
    bool strange;    /* the catalog has a key of none of them */
    bool reads_only; /* no record becomes another one */
    enum repair_step step;
    struct repair_finding *findings; /* told at the end, in this order */
    size_t n_findings, max_findings;
    bool linked;               /* files have a second name, in quarantine/ */
    bool untold;               /* no memory for a finding */
    struct repair_file *files; /* by name */
    size_t n_files, max_files;
};

/* ==== report.c ==== */

/* Notes an action for the caller, with these flags: it is done, whatever happens to the
 * rest; it is no damage. `segment` and `file` (in filters/) may be NULL. */
enum { TELL_DONE = 8, TELL_PLAIN = 16 };
void repair_tell(struct repair *r, unsigned how, const struct repair_segment *segment,
                 const char *file, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Tells of a file left as it is; `error` is what kept it from being judged, or 0. */
void repair_note(struct repair *r, int error, bool damage,
                 const struct repair_segment *segment, const char *file,
                 const char *what);
/* The file goes to quarantine/; and tells of it. */
void repair_set_aside(struct repair *r, struct repair_file *f,
                      const struct repair_segment *segment, const char *what);
/* Tells of a directory or the like that no record names: repair removes files only. */
void repair_tell_stray(struct repair *r, const char *file);
/* Tells the caller what has come true, counts it, and frees the findings. Call it
 * without locks: the caller may begin an edit. */
void repair_report(struct repair *r);
void repair_forget(struct repair *r); /* frees them untold */
/* EINTR once the caller wants the repair to end. Is asked between files. */
int repair_stopped(const struct repair *r);

/* ==== judge.c: what one file is worth ==== */

enum file_state {
    FILE_GOOD,
    FILE_MISSING,
    FILE_BAD,     /* damaged, or not the file that it should be */
    FILE_UNREAD,  /* can't be judged: I/O, a newer format, a writer at work */
    FILE_STRANGE, /* a directory, a link, ... */
};
struct judgement {
    enum file_state state;
    int code;          /* unread, strange: why, as an errno or a public code */
    bool has_identity; /* h.identity can be believed */
    bool rotten;       /* bad: for its pages alone */
    bool finished;     /* what a dead writer left, just now */
    struct header h;   /* good: as of now */
    char what[160];
};
/* Judges a file; record NULL: by itself. Finishes it after a dead writer, but for a dry
 * run. Fails only if the repair cannot go on. */
int repair_judge(struct repair *r, const struct repair_segment *segment,
                 const struct record *record, const char *name, struct judgement *j);
/* The header of a file; an errno or a code. ERR_NOT_TAMIS: no filter of any version,
 * nor remains of one. */
int repair_header(int dir, const char *name, struct header *h);
/* The identity of a file, all zeros if it is not valid; an errno if unreadable. */
int repair_identify(int dir, const char *name, struct identity *id);
/* Is it of this store: its UUID or none, its hash and seed? */
bool repair_is_ours(const struct repair *r, const struct identity *id);

/* ==== list.c: the segments and the files that there are ==== */

/* Opens and locks filters/, `name` in `dir`. ERR_BUSY during an edit or a repair. */
int repair_lock_filters(struct repair *r, int dir, const char *name);
void repair_unlock_filters(struct repair *r);
/* A catalog_each_fn, with the repair as ctx. */
int repair_add_segment(void *ctx, struct piece name, struct piece before);
void repair_set_record(struct repair_segment *s, const struct record *record);
/* Decodes its record as it is by now. */
static inline struct verdict repair_record(const struct repair_segment *s,
                                           struct record *record)
{
    return record_decode(s->value.at, s->value.n, s->name.at, s->name.n, record);
}
static inline struct piece identity_name(const struct identity *id)
{
    return (struct piece){id->name, id->name_bytes};
}
/* The segment keeps all that is not the filter's. */
void repair_drop_filter(struct repair_segment *s, const struct record *record);
int repair_list_files(struct repair *r);
/* ERR_VERSION if `filters`, in `dir`, has files of the first draft of the format. */
int repair_refuse_draft(struct repair *r, int dir, const char *filters);
struct repair_file *repair_find_file(struct repair *r, const uint8_t uuid[UUID_BYTES]);
/* The catalog names this shared file: marks it and its tombstones. */
void repair_name_shared(struct repair *r, const uint8_t uuid[UUID_BYTES]);
/* Tombstones that no record names go where their file goes. */
void repair_settle_tombstones(struct repair *r, bool has_catalog);

/* ==== orphans.c: records of the catalog in that list ==== */

int repair_read_records(struct catalog *c, struct repair *r);
void repair_forget_records(struct repair *r);
/* Marks the files of all parts of the segment's record in the catalog, and counts parts
 * in shared files. False: the parts are not known. */
bool repair_name_parts(struct repair *r, const struct repair_segment *s);

/* ==== records.c, files.c ==== */

/* Is it the list of this segment, whose filter has this set id? */
bool repair_is_list_of(const struct repair *r, const struct identity *id,
                       const struct repair_segment *s, const uint8_t *set_id);
/* The record that a catalog would have for this file. */
struct record repair_record_of(const struct header *h);
/* With the records read. */
int repair_by_records(struct repair *r);
/* Without any; needs r->meta. */
int repair_by_files(struct repair *r);
/* The meta record of a lost catalog, from the bytes of its file or the filters. */
int repair_find_meta(struct repair *r);
/* ERR_MISMATCH if the caller gave another store's UUID than r->meta has. */
int repair_check_uuid(struct repair *r);

/* ==== claims.c: who claims a name, when there is no catalog ==== */

enum { FIRST_COLUMN = 0x40000000 };
/* A file claims the name that its identity has. ENOMEM. */
int claim_name(struct repair *r, size_t file, const struct identity *id,
               const struct record *record);
/* A segment that nobody has claimed. ENOMEM. */
int claim_new(struct repair *r, struct piece name, const struct record *record,
              struct repair_segment **s);
/* Two claim the segment, which has no filter then: its own file goes aside, and this
 * one (may be NULL), too. */
void claim_dispute(struct repair *r, struct repair_segment *s, struct repair_file *f,
                   uint64_t created);
extern const char claimed_twice[];
/* Pages of the segment's own file fail: it goes aside, and this is the record. */
void claim_set_rotten_aside(struct repair *r, struct repair_segment *s,
                            const struct record *now);
/* Do both mean the same filter, wherever it lies? */
bool claim_is_same(const struct record *a, const struct record *b);

/* ==== shared.c: files that many segments share ==== */

/* Notes a shared file, whose segments claim their names later. A file that can't be
 * used goes aside. */
int claim_shared(struct repair *r, size_t i, const struct judgement *j);
/* The catalog names all of them. */
void repair_name_all_shared(struct repair *r);
/* The segment that has the name; NULL: none, but perhaps one in a shared file. */
struct repair_segment *claim_segment(struct repair *r, struct piece name);
/* A list has this name and set id. If a filter listed in a shared file has them, too,
 * *s is a new record that names the filter; else NULL. */
int claim_column_of_list(struct repair *r, const struct identity *id,
                         struct repair_segment **s);
/* After all files: segments without a tombstone are listed, unless something else has
 * their name. */
int claim_all_shared(struct repair *r);
/* Reads the shared files of the catalog, in its transaction. */
int repair_read_shared(struct catalog_txn *t, struct repair *r);
/* Looks at the shared file of a record, counts the segment, and tells what is wrong
 * with its filter there. *good: the filter counts, and the file has no damage. Fails
 * only if the repair cannot go on. */
int repair_look_at_shared(struct repair *r, struct repair_segment *s,
                          const struct record *record, bool *good);
/* Counts a part of a record that is left alone, if it is a filter in a shared file. */
void repair_count_shared(struct repair *r, const struct part_disk *part);
/* Once all records are known: looks at all shared files, lists anew the segments of
 * files for which the catalog does not agree, and tells what is wrong. */
int repair_settle_shared(struct repair *r);
uint64_t repair_count_listed(const struct repair *r);
/* Puts the lists of shared files into a catalog: all, or only lists that change. */
int repair_write_shared(struct repair *r, struct catalog_txn *t, bool all);
void repair_forget_shared(struct repair *r);

/* ==== remake.c ==== */

/* Makes anew what lists can give. With the store open, before filters/ is locked. */
int repair_remake(struct repair *r);

/* ==== quarantine.c ==== */

int claim_quarantined(struct repair *r);

#endif
