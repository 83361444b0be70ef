/* Filters made from filters: what the commands have in common. */
#ifndef TAMIS_TOOL_DERIVED_H
#define TAMIS_TOOL_DERIVED_H

struct options;

/* ==== output/derived.c ==== */

enum derived_how { DERIVED_UNION, DERIVED_INTERSECTION, DERIVED_FOLD };
/* Exits unless a fold has --by or --fpr, and not both. */
void check_fold(const struct options *o);
/* `diag` of a failed call: says so, with what would work. */
int derive_error(int err, const struct tamis_diag *diag, const char *file);
/* The same of a filter of the snapshot's, by its segment's name. */
int source_error(int err, const struct tamis_diag *diag,
                 const struct tamis_snapshot *snapshot, const char *store);
/* The same of a failed commit: 6 if a filter that was to go had been replaced. */
int replaced_error(int err, const struct tamis_diag *diag, const char *store);
/* What has become of it, as text or JSON; 3 if sources were damaged, and says so. */
int print_derived(const struct options *o, const char *what, const char *name,
                  const struct tamis_derive_report *report);
/* Files, from args[first] on; to be closed by files_close(). */
int files_open(const struct options *o, size_t first, size_t n,
               struct tamis_filter **filters);
void files_close(struct tamis_filter **filters, size_t n);

/* ==== file/derive_files.c, command/derive_segments.c: the commands, but for their help ==== */

int derive_files(int argc, char **argv, enum derived_how how);
#define DERIVE_FILE_HELP                                                               \
    "  --segment NAME    the segment's name, kept in the file\n"                       \
    "  --bind HEX        1..64 bytes that identify the engine's own file\n"            \
    "  --watermark N     your log position\n"                                          \
    "  --json            'tamis help json'\n"

int derive_segments(int argc, char **argv, enum derived_how how);
#define DERIVE_SEGMENT_HELP                                                            \
    "  --replaces OLD    drop the segment OLD in the same edit; may be repeated\n"     \
    "  --bind HEX        1..64 bytes that identify the engine's own file\n"            \
    "  --rank N          the engine's order, 0..4294967295, 0 first; 0\n"              \
    "  --watermark N     your log position\n"                                          \
    "  --json            'tamis help json'\n"

/* ==== output/compared.c ==== */

json_t *interval_json(const struct tamis_interval *i);
/* Opens the two files that the arguments name, with these options, and asks. */
int ask_two_files(int argc, char **argv, uint64_t allowed,
                  int (*ask)(const struct options *o, struct tamis_filter **f));
/* A question of yes or no: prints the answer, or says it by the exit status if --quiet.
 */
int print_answer(const struct options *o, bool is_yes, const char *yes, const char *no);
/* Prints how two filters compare, and how sure that is. */
int print_comparison(const struct options *o, struct tamis_filter *one,
                     struct tamis_filter *other, const char *const names[2]);

#endif
