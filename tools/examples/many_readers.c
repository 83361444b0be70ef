/* Many processes share one copy of the filters, and follow a writer.
 *
 * This process creates a store with a large sealed filter and a growing one, and starts
 * readers: programs of their own, that share nothing but the directory. They show
 *
 *   - the memory: what they map adds up to the files, once, however many they are
 *   - adds: a key that was added before they were asked is never absent, without commit
 *   - growth: also when the filter has got new stages meanwhile
 *   - edits: a segment is there for them as soon as the edit has returned
 *
 *   cc -Ilib many_readers.c build/libtamis.a -llmdb -lxxhash -lm -pthread
 *   ./a.out [DIRECTORY]     a named directory (empty, or not there yet) stays */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tamis.h>

enum { READERS = 4, LARGE = 4000000, ADDED = 100000, ROUNDS = 5, N_OTHER = 100000 };

/* Asked of a reader, and its answers. */
struct order {
    enum { WARM, MEASURE, PROBE, STOP } what;
    char segment[16];
    uint64_t first, n; /* the keys to look for */
};
struct answer {
    uint64_t mapped_bytes, shared_bytes; /* Rss; Pss, in which each of m has 1/m */
    uint64_t n_absent;
    uint64_t n_known; /* 1: there is such a segment */
};

_Noreturn static void fail(const char *what, int error, const struct tamis_diag *diag)
{
    fprintf(stderr, "many_readers: %s: %s: %s\n", what, tamis_strerror(error),
            diag ? diag->what : "");
    exit(2);
}

/* ---- a reader ------------------------------------------------------------------- */

/* The kernel's figures for our mappings of filters. */
static void measure(struct answer *answer)
{
    char line[512], rights[8];
    uint64_t kb;
    int ours = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    if (!f)
        fail("/proc/self/smaps", errno, NULL);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*x-%*x %7s", rights) == 1) /* a mapping begins */
            ours = strstr(line, ".tamis") != NULL;
        else if (ours && sscanf(line, "Rss: %" SCNu64, &kb) == 1)
            answer->mapped_bytes += kb * 1024;
        else if (ours && sscanf(line, "Pss: %" SCNu64, &kb) == 1)
            answer->shared_bytes += kb * 1024;
    }
    fclose(f);
}

static void probe(struct tamis_snapshot *now, const struct order *order,
                  struct answer *answer)
{
    struct tamis_target target;
    struct tamis_domain domain = tamis_snapshot_info(now).domain;
    int rc = tamis_snapshot_find(now, order->segment, strlen(order->segment), NULL, 0,
                                 0, &target);
    answer->n_known = rc == 0; /* if not, the target answers MAYBE */
    for (uint64_t i = order->first; i < order->first + order->n; i++) {
        struct tamis_key key = tamis_key_of(&domain, &i, sizeof i);
        answer->n_absent +=
            tamis_snapshot_probe(now, &target, &key, NULL) == TAMIS_ABSENT;
    }
}

static int reader(const char *dir)
{
    struct tamis_store *store;
    struct tamis_snapshot *now;
    struct tamis_diag diag;
    struct order order;
    int rc = tamis_store_open(dir, NULL, &store, &diag);
    if (rc)
        fail(dir, rc, &diag);
    while (read(0, &order, sizeof order) == sizeof order && order.what != STOP) {
        struct answer answer = {0};
        /* The list as of now. If it has not changed this is one comparison, so that it
         * may be asked for each time; filters that are open stay open. */
        if ((rc = tamis_snapshot_current(store, &now, &diag)))
            fail(dir, rc, &diag);
        struct tamis_prepare_options warm = {.size = sizeof warm, .warm = 1};
        if (order.what == WARM &&
            (rc = tamis_snapshot_prepare(now, &warm, NULL, &diag)))
            fail("reading the filters in", rc, &diag);
        if (order.what == MEASURE)
            measure(&answer);
        if (order.what == PROBE)
            probe(now, &order, &answer);
        tamis_snapshot_release(now);
        if (write(1, &answer, sizeof answer) != sizeof answer)
            fail("answering", errno, NULL);
    }
    tamis_store_close(store);
    return 0;
}

/* ---- the writer ----------------------------------------------------------------- */

static int sockets[READERS];

static void start(int i, const char *dir)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        fail("socketpair", errno, NULL);
    pid_t child = fork();
    if (child == 0) {
        /* A new program: it does not even have the mappings that a fork has. */
        if (dup2(pair[1], 0) == 0 && dup2(pair[1], 1) == 1)
            execl("/proc/self/exe", "many_readers", "--reader", dir, (char *)NULL);
        _exit(2);
    }
    if (child < 0)
        fail("fork", errno, NULL);
    close(pair[1]);
    sockets[i] = pair[0];
}

/* Asks all at once, and adds up what they answer. */
static struct answer ask(struct order order)
{
    struct answer sum = {0}, one;
    for (int i = 0; i < READERS; i++)
        if (write(sockets[i], &order, sizeof order) != sizeof order)
            fail("asking", errno, NULL);
    for (int i = 0; i < READERS && order.what != STOP; i++) {
        if (recv(sockets[i], &one, sizeof one, MSG_WAITALL) != sizeof one)
            fail("a reader is gone", errno, NULL);
        sum.mapped_bytes += one.mapped_bytes;
        sum.shared_bytes += one.shared_bytes;
        sum.n_absent += one.n_absent;
        sum.n_known += one.n_known;
    }
    return sum;
}

/* One edit: a sealed filter with the keys up to n, or with none an empty one that
 * grows; and another one goes. */
static void put(struct tamis_store *store, const char *name, uint64_t n,
                const char *dropped)
{
    struct tamis_edit *edit;
    struct tamis_builder *builder = NULL;
    struct tamis_diag diag;
    int rc = tamis_edit_begin(store, NULL, &edit, &diag);
    if (!rc && n == 0)
        rc = tamis_edit_put_growing(edit, name, strlen(name), NULL, NULL, &diag);
    else if (!rc)
        rc = tamis_edit_builder(edit, name, strlen(name), 0, NULL, &builder, &diag);
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = tamis_builder_add_key(builder, &i, sizeof i);
    if (!rc && builder)
        rc = tamis_edit_put(edit, builder, NULL, &diag);
    tamis_builder_free(builder);
    if (!rc && dropped)
        rc = tamis_edit_drop(edit, dropped, strlen(dropped), NULL, &diag);
    if (rc)
        tamis_edit_abort(edit);
    else
        rc = tamis_edit_commit(edit, &diag);
    if (rc)
        fail(name, rc, &diag);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/many_readers.XXXXXX", *dir = argc > 1 ? argv[1] : mkdtemp(made);
    struct tamis_store *store;
    struct tamis_writer *writer;
    struct tamis_filter_info info;
    struct tamis_diag diag;
    uint64_t n_lost = 0;
    if (argc == 3 && strcmp(argv[1], "--reader") == 0)
        return reader(argv[2]);
    if (!dir)
        fail("the directory", errno, NULL);
    struct tamis_open_options opt = {.size = sizeof opt, .create = TAMIS_CREATE_NEW};
    int rc = tamis_store_open(dir, &opt, &store, &diag);
    if (rc)
        fail(dir, rc, &diag);
    put(store, "large", LARGE, NULL);
    for (int i = 0; i < READERS; i++)
        start(i, dir);
    ask((struct order){.what = WARM});
    struct answer memory = ask((struct order){.what = MEASURE});
    double mapped = (double)memory.mapped_bytes / READERS;
    double copies = (double)memory.shared_bytes / mapped;
    printf("%d processes map %.0f bytes of filters each, %.2f copies of them\n",
           READERS, mapped, copies);

    put(store, "grows", 0, NULL);
    if ((rc = tamis_store_writer(store, "grows", 5, NULL, &writer, &diag)))
        fail("grows", rc, &diag);
    for (uint64_t n = 0; n < ROUNDS * ADDED;) {
        for (uint64_t end = n + ADDED; n < end && !rc; n++)
            rc = tamis_writer_add_key(writer, &n, sizeof n);
        if (rc)
            fail("adding", rc, NULL);
        n_lost += ask((struct order){PROBE, "grows", 0, n}).n_absent;
    }
    uint64_t n_other = ask((struct order){PROBE, "grows", LARGE, N_OTHER}).n_absent;
    double error = 1 - (double)n_other / READERS / N_OTHER;
    if ((rc = tamis_writer_info(writer, &info, NULL)))
        fail("grows", rc, NULL);
    printf("%d keys added, not committed, %u stages: %" PRIu64 " lost\n",
           ROUNDS * ADDED, info.n_stages, n_lost);
    printf("error %.3f%%, planned at most 1.000%%\n", 100 * error);
    if ((rc = tamis_writer_close(writer, NULL)))
        fail("grows", rc, NULL);

    put(store, "merged", ADDED, "large");
    struct answer new = ask((struct order){PROBE, "merged", 0, ADDED});
    struct answer old = ask((struct order){PROBE, "large", 0, ADDED});
    n_lost += new.n_absent + old.n_absent;
    printf("an edit: %" PRIu64 " of %d readers have the new segment, %" PRIu64
           " the old one; %" PRIu64 " lost\n",
           new.n_known, READERS, old.n_known, new.n_absent + old.n_absent);
    ask((struct order){.what = STOP});
    for (int i = 0; i < READERS; i++)
        n_lost += wait(&rc) < 0 || rc != 0;
    tamis_store_close(store);
    if (n_lost > 0 || copies > 1.1 || error > 0.012 || new.n_known < READERS ||
        old.n_known)
        return 1;
    fflush(stdout);
    return argc > 1 ? 0 : execlp("rm", "rm", "-r", dir, (char *)NULL);
}
