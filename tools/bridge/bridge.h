/* Code that tamis-leveldb and tamis-rocksdb share, one banner per source file.
 * mirror.c has a header of its own. */
#ifndef TAMIS_BRIDGE_H
#define TAMIS_BRIDGE_H

#include "../talk/talk.h"
#include "mirror.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== command.c: arguments ================================================= */

struct bridge {
    const char *store;
    char **directories; /* the database, and others of it */
    size_t n_directories;
    double error; /* 0: the store's default */
    bool dry_run, force, json;
};
/* Parses the arguments, with at most max_directories; exits for --help and --version.
 * Returns the status of a mistake, which it has reported. */
int bridge_parse(int argc, char **argv, const char *help, size_t max_directories,
                 struct bridge *out);
/* The part of the help about these options and the exit statuses. */
extern const char bridge_options_help[], bridge_exit_help[];

/* ==== database.c: the directory of a database =============================== */

/* Refuses a directory that is no database of this engine, and reports why. */
int bridge_check_database(const char *path, bool rocksdb);
/* Bytes of the logs from number `from` on, and of log `also`. */
uint64_t bridge_log_bytes(const char *path, uint64_t from, uint64_t also);

/* ==== report.c: changes that were made, or would be ======================= */

enum bridge_action {
    BRIDGE_BUILT,    /* a filter for a file that had none */
    BRIDGE_REPLACED, /* the segment of another file of this name */
    BRIDGE_REBOUND,  /* the filter stays, its binding or rank is new */
    BRIDGE_BARE,     /* newly listed without a filter */
    BRIDGE_DROPPED
};
struct bridge_change {
    enum bridge_action action;
    enum mirror_owner owner; /* of the former segment; N_MIRROR_OWNERS: none */
    char name[TAMIS_NAME_MAX + 1];
};
struct bridge_report {
    const struct bridge *bridge;
    const char *tag;
    uint64_t tables, built, kept, bare, dropped, keys, log_bytes;
    uint64_t left;                 /* segments of others, which stay */
    struct bridge_change *changes; /* to be freed */
    size_t n_changes, max_changes;
};
/* `was`: the segment that had this name, or NULL. Counts dropped segments, too. */
void bridge_changed(struct bridge_report *r, enum bridge_action action,
                    const void *name, size_t n_bytes,
                    const struct tamis_segment_info *was);
void bridge_print(const struct bridge_report *r);

/* ==== fill.c: from the tables to the store =================================== */

struct bridge_table {
    const char *path, *name, *binding;
    uint32_t rank;
    const char *why; /* it gets no filter; NULL: it gets one */
    int status;      /* with `why`: the least status in the end */
};

struct bridge_run {
    const struct bridge *b;
    struct tamis_store *store;
    const struct bridge_engine *engine;
    void *database; /* the engine's */
    char tag[MIRROR_TAG_BYTES];
    struct tamis_snapshot *before;
    struct tamis_edit *edit; /* NULL: a dry run */
    uint8_t *is_live; /* by segment: 1: its table is live; 2: with its binding, too */
    struct bridge_report report;
    int status;     /* the worst table's */
    bool overtaken; /* by another process, which changed the segments */
    bool again;     /* a table is gone, `gone`: all begins anew with a newer list */
    uint64_t gone;  /* before: the table that was gone the last time, or 0 */
};
/* All but `close` return a status, and have reported a failure. */
struct bridge_engine {
    /* Lists the live tables: sets the tag, and tables and log_bytes of the report. */
    int (*list)(struct bridge_run *r);
    int (*open)(struct bridge_run *r, size_t i, struct bridge_table *t);
    /* Adds the keys, and counts them; or sets `why`. */
    int (*keys)(struct bridge_run *r, struct bridge_table *t,
                struct tamis_builder *builder);
    void (*close)(struct bridge_run *r); /* after open, in any case */
    bool confirms; /* a list that `tamis repair` made anew, if it has nothing else
                    */
};
/* Makes the store mirror the tables, and prints a summary. Returns the status. */
int bridge_fill(const struct bridge *b, struct tamis_store *store,
                const struct bridge_engine *engine, void *database);

#ifdef __cplusplus
}
#endif

#endif
