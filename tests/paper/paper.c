/* paper figures|measure|defaults|kinds DIR writes tables; paper check judges them. */
#include "tests/paper/series.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const char *dir);
    } commands[] = {{"figures", paper_figures},
                    {"measure", paper_measure},
                    {"defaults", paper_defaults},
                    {"kinds", paper_kinds}};
    if (argc == 2 && strcmp(argv[1], "check") == 0)
        return paper_check();
    for (size_t i = 0; argc == 3 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argv[2]);
    fprintf(stderr,
            "paper: check, or one of figures, measure, defaults, kinds with DIR\n");
    return 2;
}
