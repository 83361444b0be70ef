/* An engine that uses the library, as scripts of steps have it; now and then it dies,
 * and comes back. */
#include "tests/powercut/history.h"

/* ---- its scripts ---- */

#define SEGMENT "[a|b|c|d|e|f] "
#define GROWING "[g|h|i] "
#define SOME    "0..99999 1..200; "
#define GROWTH  "1..30 [1.25|2] [.3|.05|1e-6]; "
#define PUT     "[put " SEGMENT SOME "|replace " SEGMENT SOME "|bare " SEGMENT ";] "
#define DROP    "[|drop " SEGMENT "; |drop " GROWING "; |only a c e g h; |only b d f i; ]"
/* Attaching is refused while a segment has the file. */
#define ATTACH(file) "build " file " " SOME "attach " SEGMENT file "; "
#define EDIT                                                                           \
    "begin; " DROP "1..3*(" PUT ") [grow " GROWING GROWTH "|] end; "                   \
    "[" ATTACH("u") "|" ATTACH("v") "|" ATTACH("w") "||||] "
/* Adds from two threads; what follows the last commit is not acknowledged. */
#define SESSION(x)                                                                     \
    "writer " x "; replay " x " [0|1]; [thread " x ";|] "                              \
    "1..4*(fill " x " [1..10|1..10|1..120]; commit " x "; ) unthread; "                \
    "fill " x " 0..19; [seal " x ";|||||] [shut " x ";|] "
#define LONE(x) "lone " x " 1..100 [1.25|2] [.1|1e-5]; " SESSION(x)
#define STEP                                                                           \
    "[" EDIT "|shut g; shut h; shut i; " EDIT "|build [p|q|r|s] 0..99999 1..2000; |"   \
    "embed [j|k] 0..99999 1..2000; |" LONE("l") "|" LONE("m") "|" LONE(                \
        "n") "|"                                                                       \
             "pack 0..2; |[pack|unpack]; |" SESSION("g") "|" SESSION("h") "|" SESSION( \
                 "i") "] "

static const char life[] = "grow " GROWING GROWTH "3..6*(" STEP ")[close|close|]";

/* ---- one process of the engine ---- */

static void note(struct player *p)
{
    history_note(p->ctx);
}

/* Written, and never synced by anyone but the disturber. */
static void write_unsynced(struct history *h, const char *dir)
{
    char path[2 * STEPS_PATH_BYTES];
    uint8_t bytes[4096];
    file_unsynced(dir, h->n_unsynced, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    memset(bytes, 'u', sizeof bytes);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != sizeof bytes)
        host_fail("writing a file");
    close(fd);
    h->n_unsynced++;
    history_note(h);
}

static void live(struct history *h, const char *dir)
{
    struct player p;
    char drawn[SCRIPT_BYTES], *text = h->script[h->n_lives++];
    player_begin(&p, &h->now, dir);
    p.own = helpers_word;
    helpers_most = 120;
    p.calling = p.event = note;
    p.ctx = h;
    p.rng = rng_next(&h->rng);
    write_unsynced(h, dir);
    script_draw(life, &h->rng.state, drawn);
    snprintf(text, SCRIPT_BYTES, "%s%.4000s",
             h->now.store == THERE ? "open; " : "init; ", drawn);
    play_text(&p, "%s", text);
    _exit(0);
}

/* ---- another, that makes the kernel write ---- */

static void write_back_one(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        close(fd);
    }
}

/* Starts the write-back of what is dirty in the directory, without any flush. */
static void write_back(const char *dir)
{
    char path[3 * HOST_PATH_BYTES];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        write_back_one(path);
    }
    if (d)
        closedir(d);
}

/* Makes the journal commit what others have done so far, without their data. */
static void sync_another(const char *dir)
{
    char path[2 * HOST_PATH_BYTES];
    snprintf(path, sizeof path, "%s/another", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0)
        host_fail("syncing another file");
    close(fd);
}

/* Some runs are disturbed all the time, others hardly ever. */
static void disturb(struct rng rng, const char *dir)
{
    char store[HOST_PATH_BYTES + 16], filters[HOST_PATH_BYTES + 32];
    int fd = open(dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    uint64_t pause = UINT64_C(200000) << rng_below(&rng, 7);
    snprintf(store, sizeof store, "%s/store", dir);
    snprintf(filters, sizeof filters, "%s/filters", store);
    for (;;) {
        /* Not to wait for anything: to come at another moment each time. */
        struct timespec t = {.tv_nsec = (long)rng_below(&rng, pause)};
        nanosleep(&t, NULL);
        switch (rng_below(&rng, 8)) {
        case 0:
            syncfs(fd);
            break;
        case 1:
        case 2:
            sync_another(dir);
            break;
        case 3:
            write_back(dir);
            write_back(store);
            break;
        default:
            write_back(filters);
            break;
        }
    }
}

int life_run(struct history *h, const char *dir)
{
    struct rng rng = {rng_next(&h->rng)};
    int rc = 0;
    pid_t disturber = process_start(0);
    if (disturber == 0)
        disturb(rng, dir);
    for (uint64_t n = 3 + rng_below(&h->rng, 3); n > 0 && !rc; n--) {
        pid_t pid = process_start(0);
        if (pid == 0)
            live(h, dir);
        rc = host_wait(pid);
    }
    kill(disturber, SIGKILL);
    host_wait(disturber);
    return rc;
}

/* ---- after a power cut ---- */

int life_resume(struct history *h, const struct history *before, uint64_t cut,
                const char *dir)
{
    h->now = history_at(before, cut)->promises;
    h->first_unsynced = h->n_unsynced = before->n_unsynced;
    pid_t pid = process_start(0);
    if (pid == 0) {
        struct player p;
        struct look look = {0};
        player_begin(&p, &h->now, dir);
        steps_expect(&p, &look);
        player_end(&p);
        for (size_t i = 0; i < h->now.n_objects; i++) {
            struct object *o = &h->now.object[i];
            if (o->standing != THERE || !o->grows)
                continue;
            o->watermark = o->n_done; /* as the disk has it */
            o->asked = o->asked > o->watermark ? o->asked : o->watermark;
        }
        _exit(0);
    }
    int rc = host_wait(pid);
    h->moment[0].promises = h->now; /* it holds of every cut */
    h->moment[0].n_unsynced = h->n_unsynced;
    return rc;
}
