/* serve.h - `palimpsest serve`: boots, says where it listens, runs until a signal, drains.
 *
 * First line on stdout, printed once requests are answered: "listening on http://ADDR:PORT", or
 * "listening on unix:/PATH"; then one for each further listener, "admin on http://ADDR:PORT" for
 * the admin one. SIGTERM and SIGINT drain (docs/operations.md); a second one ends at once. SIGHUP
 * reads the options again (reload.h). */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

/* args are those behind the verb; envp ends with NULL. Returns the exit status. Once per
 * process. */
int serve_main(int argc, char **argv, char *const *envp);

#endif
