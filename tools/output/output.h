/* Prints filters, answers and findings for several commands, for people and for
 * programs. One banner per source file; json.h has the JSON. */
#ifndef TAMIS_OUTPUT_H
#define TAMIS_OUTPUT_H

#include "../open/open.h"
#include "../talk/screen.h"
#include "json.h"

/* ==== answers.c: the answers of probes =========================================== */

struct answers {
    bool json, silent, explain;
    enum key_format format; /* as keys were given, they are printed */
    uint64_t keys, pairs, maybe_pairs, absent_keys;
    json_t *list; /* of the key at hand */
    bool listed;  /* some pair was printed for it */
};
/* For each key: begin, a pair per segment that may hold it (bytes NULL: it has no
 * known name), end with the answer and how many segments were asked. With `explain`,
 * each segment's answer_explained() comes first, and as JSON answer_candidates() and
 * the pairs follow. */
struct answers answers_for(const struct options *o);
void answer_begin(struct answers *a, const struct tamis_key *key);
void answer_candidates(struct answers *a);
void answer_pair(struct answers *a, const struct tamis_key *key, struct name segment,
                 enum tamis_reason reason);
/* Of --explain, for ABSENT as well. */
void answer_explained(struct answers *a, const struct tamis_key *key,
                      struct name segment, const struct tamis_explanation *e);
void answer_end(struct answers *a, const struct tamis_key *key,
                enum tamis_answer answer, size_t n_asked);
void print_totals(const struct answers *a);
/* As it was given: with KEYS_HEX in hex digits, else escaped. */
void print_key(const struct tamis_key *key, enum key_format format);
/* "key", and with KEYS_HEX "key_hex". */
void json_put_key(json_t *o, const struct tamis_key *key, enum key_format format);

/* ==== verified.c: is a filter whole, and its list, and has it their keys? ======== */

struct against {
    uint64_t keys, segments, lost;
    bool by_hash; /* from segments' lists of hashes */
    /* Segments that were not checked: without a list, with a cut one, with one that
     * cannot be read. */
    uint64_t unlisted, cut, unread;
    size_t listed;
    json_t *list; /* of lost keys; NULL: they are printed */
};
/* Probes many hashes as tamis_filter_probe_batch(). */
typedef size_t batch_fn(void *ctx, uint64_t tag, const uint64_t *hashes, size_t n,
                        uint64_t *absent);
/* Probes a filter so; NULL has every key. */
size_t probe_filter(void *filter, uint64_t tag, const uint64_t *hashes, size_t n,
                    uint64_t *absent);
/* A list without keys checks nothing: it is refused unless --empty is given. */
int against_list(struct against *a, const char *keyfile, const struct options *o,
                 const struct tamis_domain *domain, struct name segment,
                 batch_fn *probe, void *ctx);
/* Prints the sum, or puts it into `root`. 3, reported, if keys are lost. */
int against_end(struct against *a, const char *file, json_t *root);

/* Advice that mends a filter, as for complain_error(). Called if there is an error. */
typedef const char *advice_fn(const void *ctx, int err);
/* Checks every page and prints one line about it, or adds an object to `list`. `advise`
 * may be NULL: the usual advice. */
int verify_one(struct tamis_filter *filter, struct name segment, const char *file,
               advice_fn *advise, const void *ctx, json_t *list);
void verify_line(json_t *list, struct name segment, const char *result,
                 const char *file, const char *what, const struct tamis_verify *report,
                 const char *advice);

/* Puts the facts of a segment's list, if it has one that opens. */
void json_put_list(json_t *o, const struct tamis_snapshot *snapshot, size_t index);
/* Prints them, or why the list does not open. */
void print_its_list(const struct tamis_snapshot *snapshot, size_t index);
/* tamis_snapshot_list(), but a list that does not open is looked for in a newer
 * snapshot: another process may have dropped or replaced the segment meanwhile. */
int open_its_list(struct tamis_store *store, const struct tamis_snapshot *snapshot,
                  size_t index, struct tamis_filter **list, struct tamis_diag *diag);
/* A segment's list, as tamis_snapshot_list() opened it: a check opens it once, for the
 * file may be gone when it is opened again. tamis_filter_close() the list. */
struct opened_list {
    struct tamis_filter *list; /* NULL: `err` and `diag` say why */
    int err;
    struct tamis_diag diag;
};
/* Checks the list of a segment, if it has one. A good list needs no line, since no
 * answer rests on it. */
int verify_its_list(const struct opened_list *its, struct name name, const char *store,
                    json_t *lines);
/* The info of the segment's list; zeros if none opens. verify: and all pages, if hashes
 * are whole. Returns an error. */
int its_list_info(const struct tamis_snapshot *snapshot, size_t index, bool verify,
                  struct tamis_filter_info *info, struct tamis_diag *diag);
/* Has the segment a list of whole hashes, of which every page is good? */
bool has_good_list(const struct tamis_snapshot *snapshot, size_t index);
/* Advice for a segment whose filter is missing or damaged: its list, if that is good to
 * the end, makes it anew. Else NULL. */
const char *advice_from_list(const struct tamis_snapshot *snapshot, size_t index);
/* Reports why a segment's list cannot be used. Returns the status. */
int list_error(int err, const struct tamis_diag *diag, const char *store,
               struct name name, const char *advice);
/* Asks a segment's filter for each hash of its list. A segment without a list of whole
 * hashes is refused if it was named, and else counted. */
int against_its_list(struct against *a, const struct opened_list *its, uint64_t tag,
                     struct name name, const struct options *o, batch_fn *probe,
                     void *ctx);

/* ==== filter.c: the facts of a filter, and of a segment ========================== */

/* Does the expected error exceed the target by more than chance? */
bool over_target(const struct tamis_filter_info *info);
/* The bits of all stages, and how many of them are set. */
void filter_bits(const struct tamis_filter_info *info, uint64_t *bits, uint64_t *set);
json_t *filter_json(struct tamis_filter *filter);
/* `allocated`: bytes of the disk. */
void print_filter(struct tamis_filter *filter, uint64_t allocated);
/* A segment in its catalog, with its place in a pack, and its list. */
json_t *segment_json(struct tamis_snapshot *snapshot, size_t index,
                     const struct tamis_segment_info *info);

/* ==== residency.c: how much of a filter is in memory ============================= */

/* A table of these segments, of pick_named(), or lists and sums in `root`. */
int segments_residency(struct tamis_store *store, struct tamis_snapshot *snapshot,
                       const char *path, const size_t *segments, size_t n,
                       json_t *root);
/* The same for a filter's file, in a line. */
int file_residency(const struct options *o, json_t *root);

/* ==== prometheus.c: a store for a monitor ======================================== */

/* 3, reported, if --check is given and pages fail their check. *snapshot may be
 * replaced by a newer one. */
int print_prometheus(struct tamis_store *store, struct tamis_snapshot **snapshot,
                     const struct options *o);

/* ==== findings.c: the findings of repair and backup ============================== */

/* A line, or an object in `list`. */
void print_finding(json_t *list, const struct tamis_repair_finding *f);
/* Filters that an error kept from being read or finished: the first, and how many. */
struct unread {
    uint64_t n;
    int error;
    char file[80], what[400];
};
void note_unread(struct unread *u, const struct tamis_repair_finding *f);
/* Reports them in a line, if there are any. Returns the status. */
int complain_unread(const struct unread *u, const char *store);

/* ==== closing.c: segments built or dropped ======================================= */

struct closing {
    bool json;
    uint64_t n, n_filters, keys, bytes;
    double error; /* the largest that is wanted */
    char *name;   /* of the last one */
    json_t *list;
    struct tamis_snapshot *snapshot;
};
/* All of it for segments that were built, as they are listed now. */
int closing_print(const struct options *o, struct tamis_store *store,
                  const struct name *names, size_t n, const char *verb);
/* Leaves out what the snapshot does not list: another process has dropped it. */
void closing_listed(struct closing *c, const char *name, size_t n_bytes);
/* Prints "VERB segment 'x': ..." unless --quiet, or with --json one object. */
void closing_end(struct closing *c, const struct options *o, const char *verb);
void closing_free(struct closing *c);

/* ==== derived.c: what is made from filters, or from lists ======================== */

/* Reports a failed call by `diag`, with advice. */
int derive_error(int err, const struct tamis_diag *diag, const char *file);
/* The same for the filter of one of these segments, by the segment's name. */
int source_error(int err, const struct tamis_diag *diag,
                 struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                 const char *store);
/* Prints the new filter, as text or JSON. 3, reported, if sources were damaged. */
int print_derived(const struct options *o, const char *what, const char *name,
                  const struct tamis_derive_report *report);
/* Prints the new list. `what`: "segment" or "file". Returns the status. */
int print_merged(const struct options *o, const char *what, const char *name,
                 size_t n_lists, const struct tamis_merge_report *report);

/* ==== comparison.c: two filters compared ========================================= */

json_t *interval_json(const struct tamis_interval *i);
struct compared {
    struct tamis_comparison keys;
    bool exact; /* counted, from lists of whole hashes */
    int broken; /* the list that could not be read, where that fails */
};
/* Is it a list of whole hashes? */
bool is_whole_list(struct tamis_filter *filter, struct tamis_filter_info *info);
/* Two such lists of one seed are counted. Any other filters are estimated. */
int compare_filters(struct tamis_filter *const f[2], struct compared *out,
                    struct tamis_diag *diag);
/* Prints how two filters compare, with bounds. */
int print_comparison(const struct options *o, const struct compared *c,
                     const char *const names[2]);

#endif
