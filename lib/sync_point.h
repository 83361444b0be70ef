/* Named places at which a test holds a thread, to force an interleaving that chance
 * would take years to find (test_interleavings_*.c). The test is built with its own
 * objects and TAMIS_SYNC_POINTS; elsewhere, in all that is shipped, nothing is left of
 * them, which `make check-symbols` verifies. */
#ifndef TAMIS_SYNC_POINT_H
#define TAMIS_SYNC_POINT_H

#ifdef TAMIS_SYNC_POINTS
void sync_point(const char *name); /* the test defines it */
#define SYNC_POINT(name) sync_point(name)
#else
#define SYNC_POINT(name) ((void)0)
#endif

#endif
