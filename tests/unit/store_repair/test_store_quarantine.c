/* Filters in quarantine/ are of segments that the engine has: a catalog that is made
 * anew lists them, and a list that lacks one of them is not confirmed. */
#include "tests/support/shop/shop.h"

#include <dlfcn.h>

static bool unlisted; /* directories cannot be read */

struct dirent *readdir(DIR *d)
{
    struct dirent *(*real)(DIR *);
    void *at = dlsym(RTLD_NEXT, "readdir");
    memcpy(&real, &at, sizeof real);
    return unlisted ? errno = EIO, NULL : real(d);
}

/* Segments a and b; a's filter in quarantine. Then the catalog is lost. */
#define TWO       "put a 0 100; put b 100 100;"
#define SET_ASIDE TWO "flip a 4099; repair; is quarantined=1;"

TEST_OF_SCENES(names_in_quarantine_are_listed_again)
{
    static const char again[] =
        "lose catalog; repair; is segments=2; says rebuilt a quarantine/; confirm;"
        "why a 50 NO_FILTER; all 50 MAYBE; why b 50 ABSENT; has b 100 100; settled";
    play("and once more", SET_ASIDE "%s; %s", again, again);
}

TEST_OF_SCENES(lists_that_lack_what_is_in_quarantine)
{
    static const struct scene_row rows[] = {
        {"a segment that was built anew has its good file", SET_ASIDE,
         "replace a 0 100; lose catalog",
         "repair; is segments=2; confirm; seen 0; why a 99999 ABSENT;"
         "has a 0 100"},
        /* Its name is lost with its header: no list is known to be whole. */
        {"a list is not confirmed over a file of no name", TWO,
         "flip a 130; lose catalog",
         "repair; is segments=1; fails MISMATCH confirm; told quarantine/; seen 1;"
         "says noted  quarantine/; says nobody can tell which segment; all 50 MAYBE;"
         "complete 0; confirm force; seen 1; complete 1;"
         "confirm; seen 1; complete 1;" /* what lies there is told */
         "lose catalog; repair; says nobody can tell which segment; put a 0 100;"
         "fails MISMATCH confirm; live lose aside:old; confirm; all 50 MAYBE;"
         "all 99999 ABSENT"},
        /* As if an older version had made the store anew, which did not look there. */
        {"nor over a name that is not listed", SET_ASIDE, "lose catalog",
         "repair; drop a; fails MISMATCH confirm; says noted a quarantine/;"
         "says its segment is not listed; all 50 MAYBE; bare a; confirm; all 50 MAYBE;"
         /* It is gone for good: its file is what brought it back. */
         "lose aside:a catalog; repair; is segments=1; confirm; all 50 ABSENT"},
        {"attached again it is listed", "put b 100 100",
         "build =a; attach a =a; call was a; lose catalog",
         "repair; says of no segment: attach it; fails MISMATCH confirm;"
         "says nobody can tell which segment; attach a aside:was; confirm; has a 0 "
         "100"},
        {"a dropped column is not the file's segment", "put b 100 100",
         "build =a; attach a =a; call was a; copy was =kept; pack; copy =kept was;"
         "lose catalog",
         "repair; says of no segment: attach it; confirm; drop a; lose catalog; repair;"
         "fails MISMATCH confirm; says nobody can tell which segment"},
        /* Other files there are of no segment of this store. */
        {"other files are passed over", SET_ASIDE,
         "stranger x 0 10; move stranger aside:stranger;"
         "mkdir quarantine/00112233445566778899aabbccddeeff.tamis;"
         "link quarantine/00112233445566778899aabbccddeefe.tamis a;"
         "text quarantine/notes mine;"
         "text quarantine/00112233445566778899aabbccddeefd.tamis.bak x;"
         "move aside:a aside2:a; lose catalog", /* as repair names a second one */
         "repair; is segments=2; confirm; seen 0; why a 50 NO_FILTER"},
    };
    for (size_t i = 0; i < N_OF(rows); i++)
        play(rows[i].name, "%s;%s;%s;%s", rows[i].made, i == 1 ? "call old a" : "mark",
             rows[i].harm, rows[i].then);
}

TEST_OF_SCENES(an_error_decides_nothing)
{
    scene("files and directories that cannot be read");
    steps(SET_ASIDE "lose catalog; mark; unreadable aside:a; fails EIO repair;"
                    "told quarantine/; stays; unreadable; repair; open");
    size_t n_descriptors = count_files("/proc/self/fd");
    steps("live unreadable aside:a; fails EIO confirm; told a filter in quarantine/");
    unlisted = true;
    steps("fails EIO confirm; told looking into quarantine/");
    unlisted = false;
    steps("complete 0");
    IS(count_files("/proc/self/fd"), n_descriptors);
    steps("confirm force; complete 1; live unreadable");
}

RUN_TESTS(NULL, NULL)
