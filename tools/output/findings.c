/* Prints the findings of repair and backup: each a line, or an object. The error line
 * names the first filter that could not be read. It is no damage: rebuild nothing. */
#include "output.h"

void print_finding(json_t *list, const struct tamis_repair_finding *f)
{
    if (list == NULL) {
        print_tinted(f->damage ? TINT_BAD : TINT_NONE, "%s", f->action_name);
        printf("\t%s\t%s\t%s\n", NAME_OR(f->name, f->name_bytes),
               f->file[0] ? PATH(f->file) : "-", PATH(f->what));
        return;
    }
    json_t *o = json_of("action", json_string(f->action_name));
    if (f->name != NULL)
        json_put(o, "segment", json_escaped(f->name, f->name_bytes));
    if (f->file[0])
        json_put(o, "file", json_text(f->file));
    json_add(o, "what", json_text(f->what), "damage", json_boolean(f->damage));
    if (f->error != 0)
        json_put(o, "error", json_string(tamis_strerror(f->error)));
    json_put(list, NULL, o);
}

void note_unread(struct unread *u, const struct tamis_repair_finding *f)
{
    if (f->error == 0 || u->n++ > 0)
        return;
    u->error = f->error;
    snprintf(u->file, sizeof(u->file), "%s", f->file);
    snprintf(u->what, sizeof(u->what), "%s", f->what);
}

int complain_unread(const struct unread *u, const char *store)
{
    const char *advice = advice_unread(u->error, u->what);
    char more[48] = "";
    if (u->n == 0)
        return EXIT_DONE;
    if (u->n > 1)
        snprintf(more, sizeof(more), " (and %llu more)", LLU(u->n) - 1);
    return complain(status_unread(u->error), "%s: %s: %s%s%s%s", store, u->file,
                    u->what, more, advice ? ": " : "", advice ? advice : "");
}
