/* A file system that is full: what takes its space, and what gives it back. */
#ifndef TAMIS_TESTS_FULL_H
#define TAMIS_TESTS_FULL_H

/* Where it is mounted. */
extern char full_dir[600];
const char *on_full(const char *name);
/* Takes every block there is. */
void full_fill_up(void);
void full_make_space(void);
/* Lets a copy share its blocks: whatever is stored now needs a block of its own. */
void full_share(const char *path);

#endif
