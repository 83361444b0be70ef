/* Stores that change nothing: R3's "makes it dirty again". They leave no trace in the
 * content, so the mappings of a file that has lied are watched page by page. */
#include "tests/crash/record/record.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Mappings of a file with lied pages, protected: the first store to a page faults. */
static struct region {
    uint8_t *at;
    size_t n_bytes;
    uint64_t offset;
    struct disk_file *file;
    uint8_t touched[4096];
} regions[64];
static size_t n_regions;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;
    (void)context;
    for (size_t i = 0; i < n_regions; i++) {
        struct region *g = &regions[i];
        if (at < g->at || at >= g->at + g->n_bytes)
            continue;
        size_t page = (size_t)(at - g->at) / PAGE_BYTES;
        if (g->touched[page])
            break;
        g->touched[page] = 1;
        mprotect(g->at + page * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE);
        return;
    }
    signal(sig, SIG_DFL); /* a fault of the library: again, and for good */
}

void touch_watch(void *at, size_t n_bytes, off_t offset, struct disk_file *f)
{
    size_t i = 0;
    while (i < n_regions && regions[i].at != at)
        i++;
    if (i == 64 || n_bytes / PAGE_BYTES > sizeof regions[0].touched)
        abort();
    if (i == n_regions)
        n_regions++;
    regions[i] = (struct region){at, n_bytes, (uint64_t)offset, f, {0}};
    mprotect(at, n_bytes, PROT_READ);
}

void touch_take(void)
{
    for (size_t i = 0; i < n_regions; i++)
        for (size_t k = 0; k < regions[i].n_bytes / PAGE_BYTES; k++)
            if (regions[i].touched[k])
                disk_redirty(regions[i].file, regions[i].offset / PAGE_BYTES + k);
}

void record_unmapped(void)
{
    n_regions = 0;
}

void touch_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
}
