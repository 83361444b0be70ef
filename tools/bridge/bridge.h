/* Code that tamis-leveldb and tamis-rocksdb share, one banner per source file.
 * mirror.c has a header of its own. */
#ifndef TAMIS_BRIDGE_H
#define TAMIS_BRIDGE_H

#include "../talk/talk.h"
#include "mirror.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== command.c: arguments, and lines for people ========================== */

enum { BRIDGE_ATTEMPTS = 8 };

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

/* A line about one file, `PROGRAM: ...`, as often as it is called. */
void bridge_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
int bridge_complain_error(int error, const struct tamis_diag *diag, const char *store);

/* Opens the store, or reports why it cannot. */
int bridge_open(const struct bridge *b, struct tamis_store **store);
/* May the store mirror the database? If not: BRIDGE_DAMAGE, and a report. */
int bridge_admit(const struct bridge *b, struct tamis_snapshot *snapshot,
                 const char *tag, const struct mirror_survey *survey, bool old_is_this);
/* The same for a segment that is in the way of the table of its name. */
int bridge_admit_replacing(const struct bridge *b, const char *tag,
                           const struct tamis_segment_info *info);
/* Did another process change the segments of an edit? Then the edit is made anew from
 * the current list. */
bool bridge_was_overtaken(int err);

/* ==== report.c: changes that were made, or would be ======================= */

enum bridge_action {
    BRIDGE_BUILT,    /* a filter for a file that had none */
    BRIDGE_REPLACED, /* the segment of another file of this name */
    BRIDGE_REBOUND,  /* the filter is kept, its binding or rank is new */
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
    uint64_t left; /* segments of others, which stay */
    struct bridge_change *changes;
    size_t n_changes, max_changes;
};
/* `was`: the segment that had this name, or NULL. Counts dropped segments, too. */
void bridge_changed(struct bridge_report *r, enum bridge_action action,
                    const char *name, const struct tamis_segment_info *was);
/* Corrects the last change, REBOUND: its filter could not be kept. */
void bridge_built_after_all(struct bridge_report *r);
void bridge_dropped(struct bridge_report *r, const struct tamis_segment_info *was);
void bridge_print(const struct bridge_report *r);
void bridge_report_free(struct bridge_report *r);

#ifdef __cplusplus
}
#endif

#endif
