/* SPDX-License-Identifier: MIT */
/*
 * Stands in the place of libgit2, which Criterion loads to draw the differences of two strings.
 * Only the asserts of criterion/new/assert.h have that drawn, and no test here uses them; yet the
 * process of each test loads libgit2 with sixteen libraries that it needs, and reads the machine's
 * certificates: half of all that a small test costs.
 */
int git_libgit2_init(void);
int git_libgit2_shutdown(void);
int git_diff_buffers(void);

/* How often it was initialized. */
int git_libgit2_init(void)
{
    return 1;
}

int git_libgit2_shutdown(void)
{
    return 0;
}

/* A failure; there is no output to read. */
int git_diff_buffers(void)
{
    return -1;
}
