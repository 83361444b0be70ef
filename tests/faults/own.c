/* Words of their own, and processes beside: others commit while this one looks. */
#include "tests/faults/run.h"

/* ---- as by a process that no fault strikes ---- */

static struct {
    struct tamis_store *store;
    void (*returned)(struct player *p, int rc, int expected, const char *call);
} ours;

/* A store that can only be read, as far as this process can tell, cannot be written by
 * its others either. */
static int begin_others(struct player *p)
{
    struct tamis_store_info info = {0};
    if (p->store)
        tamis_store_info(p->store, &info, NULL);
    if (info.read_only || (p->p->store == THERE && !p->store)) {
        script_skip(p, "ours");
        return 1;
    }
    ours.store = p->store;
    ours.returned = p->returned;
    p->store = NULL;
    p->returned = script_must;
    faults_pause(true);
    return 0;
}

static int end_others(struct player *p)
{
    if (p->store)
        IN_LIB_VOID(tamis_store_close(p->store));
    faults_pause(false);
    p->store = ours.store;
    p->returned = ours.returned;
    return 0;
}

int own_word(struct player *p, const struct step *s)
{
    return strcmp(s->word->text, "others") == 0 ? begin_others(p) : end_others(p);
}

/* ---- a commit whose process died before it told the others ---- */

static pid_t holder; /* keeps the catalog open, or LMDB would settle it itself */

/* A failure here ends the process with an exit code. */
static pid_t start_beside(void (*fn)(int ready))
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0, "preparing");
    pid_t child = process_start(0);
    if (child == 0) {
        fn(ends[1]);
        _exit(3);
    }
    close(ends[1]);
    (void)!read(ends[0], &byte, 1); /* ready, or ended */
    close(ends[0]);
    return child;
}

static void hold(int ready)
{
    play_text(&the_player, "open");
    if (write(ready, "r", 1) != 1)
        _exit(4);
    pause();
}

static void die(int ready)
{
    (void)ready;
    play_text(&the_player, "open");
    die_after_meta = true;
    play_text(&the_player, "put n 50 5");
}

void killed_prepare(struct run *r)
{
    (void)r;
    holder = start_beside(hold);
    CHECK(process_end(start_beside(die)) == 0, "preparing: it did not die");
    *promised_object(the_player.p, "n") = (struct object){
        .name = "n", .standing = THERE, .keys = {.range = {{50, 5}}, .n_ranges = 1}};
}

void killed_check(struct run *r)
{
    script_check(r);
    kill(holder, SIGKILL);
    process_end(holder);
}
