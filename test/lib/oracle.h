/* oracle.h - programs and libraries that a test compares with, or stands on.
 *
 * Who has not installed one may run all other tests: the program says what is missing and exits
 * with 77, which meson counts as skipped. script/test installs them all, and counts a program that
 * is skipped as a failure. */
#ifndef TEST_LIB_ORACLE_H
#define TEST_LIB_ORACLE_H

/* First in main. what: the name of a program on the path, or a pattern of paths. Ends the process
 * with 77 when there is none. */
void oracle_need(const char *what);

#endif
