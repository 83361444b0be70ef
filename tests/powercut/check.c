/* Moments of a run, and what is held against them: readers first, then an engine that
 * comes back, then readers again. */
#include "tests/powercut/history.h"

struct history *history_create(uint64_t seed)
{
    struct history *h = memory_shared(sizeof *h);
    h->seed = seed;
    h->rng.state = mix64(seed, 1);
    h->n_moments = 1; /* nothing is promised of an empty disk */
    return h;
}

void history_free(struct history *h)
{
    munmap(h, sizeof *h);
}

/* If nothing has reached the disk between moments, the last of them is enough. */
void history_note(struct history *h)
{
    uint64_t at = atomic_load(&h->device->n_entries);
    if (h->moment[h->n_moments - 1].at != at)
        h->n_moments++;
    if (h->n_moments > MAX_MOMENTS)
        host_fail("too many moments");
    struct moment *m = &h->moment[h->n_moments - 1];
    m->at = at;
    m->n_unsynced = h->n_unsynced;
    m->promises = h->now;
}

const struct moment *history_at(const struct history *h, uint64_t cut)
{
    size_t n = 1;
    while (n < h->n_moments && h->moment[n].at <= cut)
        n++;
    return &h->moment[n - 1];
}

struct finding *finding;
static struct player *player; /* the process's */

static _Noreturn void wrong(const char *text, const struct tamis_diag *diag)
{
    bool told = diag && diag->code && diag->code != NO_DIAG;
    int os = told ? diag->os_errno : 0;
    char what[FINDING_BYTES];
    int n = snprintf(what, sizeof what, "%.400s", text);
    if (told)
        snprintf(what + n, sizeof what - (size_t)n, ": %s: %.150s (%.200s, %s)",
                 tamis_strerror(diag->code), diag->what, diag->file, strerror(os));
    if (!finding) {
        fprintf(stderr, "powercut: %s\n", what);
        _exit(3);
    }
    finding->wrong = true;
    finding->file_system = os == EUCLEAN || os == EIO;
    memcpy(finding->what, what, sizeof what);
    _exit(0);
}

_Noreturn void model_broken(const char *text)
{
    wrong(text, player ? &player->diag : NULL);
}

static void returned(struct player *p, int rc, int expected, const char *call)
{
    /* A segment has the attached file already. */
    bool again = rc == TAMIS_ERR_EXISTS && (strstr(call, "edit_attach") != NULL ||
                                            strstr(call, "edit_commit") != NULL);
    if (rc != expected && !again) {
        if (p->diag.code == NO_DIAG)
            p->diag = (struct tamis_diag){.code = rc};
        wrong(call, &p->diag);
    }
}

void player_begin(struct player *p, struct promises *promises, const char *dir)
{
    memset(p, 0, sizeof *p);
    p->p = promises;
    p->dir = dir;
    p->returned = returned;
    /* Helping threads add again the keys that were not committed. */
    for (size_t i = 0; i < promises->n_objects; i++)
        memcpy(promises->object[i].n_helping, promises->object[i].n_helped,
               sizeof promises->object[i].n_helping);
    player = p;
}

/* ---- files that nobody synced ---- */

void file_unsynced(const char *dir, uint32_t number, char path[2 * STEPS_PATH_BYTES])
{
    snprintf(path, 2 * STEPS_PATH_BYTES, "%s/unsynced%u", dir, number);
}

static void look_at_unsynced(const char *dir, uint32_t number)
{
    char path[2 * STEPS_PATH_BYTES];
    uint8_t bytes[4096];
    struct stat st;
    file_unsynced(dir, number, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool whole = fd >= 0 && fstat(fd, &st) == 0 && st.st_size == sizeof bytes &&
                 read(fd, bytes, sizeof bytes) == sizeof bytes;
    for (size_t i = 0; whole && i < sizeof bytes; i++)
        whole = bytes[i] == 'u';
    if (fd >= 0)
        close(fd);
    finding->n_unsynced++;
    finding->n_unsynced_lost += !whole;
}

/* ---- all of it ---- */

/* An engine whose store was not made yet makes it again. */
static void come_back(struct player *p, uint64_t seed)
{
    char text[SCRIPT_BYTES];
    /* A repair sweeps the remains of the first store. */
    p->lenient = p->p->store == NOT_THERE;
    steps_go_on(p->p, &seed, "new", text);
    play_text(p, "%s%s", text, p->lenient ? "init; put new 9000000 3" : "");
}

void check_run(const struct history *h, uint64_t cut, const char *dir, bool go_on,
               struct finding *out)
{
    static struct promises promises;
    static struct player p;
    const struct moment *m = history_at(h, cut);
    struct look look = {0};
    bool was_made = m->promises.store == THERE;
    promises = m->promises;
    finding = out;
    alarm(120);
    player_begin(&p, &promises, dir);
    for (uint32_t i = h->first_unsynced; i < m->n_unsynced; i++)
        look_at_unsynced(dir, i);
    steps_expect(&p, &look);
    out->n_keys = (unsigned)model_counts.n_asked;
    if (go_on) {
        come_back(&p, cut);
        p.lenient |= !was_made; /* nor does an edit sweep what its opening left */
        steps_expect(&p, &look);
        steps_expect_swept(&p);
        out->went_on = true;
    }
    player_end(&p);
    out->n_keys = (unsigned)model_counts.n_asked;
    _exit(0);
}
