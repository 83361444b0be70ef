/* The lines of `tamis plan --apply` for work that is left: each has the command that
 * does it, to be copied into a shell. */
#include "inside.h"

static bool has_list(const struct plan_step *step, const struct planned *s,
                     struct tamis_filter_info *list)
{
    return its_list_info(step->snapshot, s->index, false, list, NULL) !=
           TAMIS_ERR_NO_SEGMENT;
}

/* Prints options for the rank, the binding, and of a filter the watermark and the list,
 * which a new segment would lack. */
static void print_kept(const struct plan_step *step, const struct planned *s,
                       bool has_filter)
{
    struct tamis_segment_info info;
    struct tamis_filter_info list;
    if (tamis_snapshot_segment(step->snapshot, s->index, &info) == 0) {
        if (info.rank > 0)
            printf(" --rank %lu", (unsigned long)info.rank);
        if (info.binding_bytes > 0)
            printf(" --bind ");
        for (size_t i = 0; i < info.binding_bytes; i++)
            printf("%02x", info.binding[i]);
        if (has_filter && info.watermark > 0)
            printf(" --watermark %llu", LLU(info.watermark));
    }
    if (has_filter && has_list(step, s, &list)) {
        printf(" --list");
        if (list.hash_bits > 0 && list.hash_bits < 64)
            printf("=%u", list.hash_bits);
    }
}

/* Prints the segment's name and `rest`. A name that looks like an option comes last,
 * after `--`. */
static void print_operands(const struct planned *s, bool last, const char *rest)
{
    bool dashed = s->name[0] == '-';
    if (dashed == last)
        printf("%s %s%s", dashed ? " --" : "", s->word, rest);
}

/* Prints a command for the segment, up to its options. print_operands() ends it. `note`
 * follows the segment's name in its title. */
static void print_command(const struct plan_step *step, const struct planned *s,
                          const char *does, const char *note, const char *command,
                          const char *rest)
{
    char *store = path_word(step->store);
    printf("%-8s %s%s: tamis %s %s", does, s->name, note, command, store);
    print_operands(s, false, rest);
    free(store);
}

static void print_rebuild(const struct plan_step *step, const struct store_plan *p,
                          size_t i)
{
    const struct planned *s = &p->segments[i];
    const struct tamis_plan_share *to = &p->shares[i];
    struct tamis_filter_info list;
    bool from_list = !step->tried && has_list(step, s, &list) && list.hash_bits == 64;
    const char *keys = from_list ? "" : " KEYFILE";
    print_command(step, s, "rebuild",
                  from_list && step->waits ? ", when there is room" : "", "build",
                  keys);
    printf("%s --fpr %.4g%s", from_list ? " --from-list" : "", to->error,
           plan_is_ribbon(to)          ? " --kind ribbon"
           : from_list && s->is_ribbon ? " --kind bloom" /* else it stays a ribbon */
                                       : "");
    if (!from_list) {
        printf(" --replaces %s", s->word);
        print_kept(step, s, true);
    }
    print_operands(s, true, keys);
    putchar('\n');
}

void plan_print_left(const struct plan_step *step, const struct store_plan *p, size_t i)
{
    const struct planned *s = &p->segments[i];
    struct tamis_filter_info list;
    if (step->action == PLAN_REBUILD)
        print_rebuild(step, p, i);
    if (step->action == PLAN_REMOVE) {
        print_command(step, s, "remove",
                      has_list(step, s, &list) ? ", and its list goes, too" : "",
                      "build", "");
        printf(" --bare --replaces %s", s->word);
        print_kept(step, s, false);
        print_operands(s, true, "");
        putchar('\n');
    }
    if (step->action == PLAN_UNREAD)
        printf("unread   %s: %s\n", s->name, s->unread);
    if (step->action == PLAN_SEAL) {
        print_command(step, s, "seal", ", then --apply again", "seal", "");
        print_operands(s, true, "");
        putchar('\n');
    }
}
