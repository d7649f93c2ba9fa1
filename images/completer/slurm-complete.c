// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
//
// slurm-complete SOCKET TOKEN_FILE        answers on a unix socket
// slurm-complete --ask SOCKET WORD...     asks such a socket one thing; exits 0 on "ok"
//
// Ends external jobs of Slurm as COMPLETED or FAILED, which slurmrestd cannot do. One connection carries one line in each
// direction:
//
//     ping                                  ->  ok
//     complete JOB WAIT_STATUS              ->  ok  |  no NUMBER ERROR TEXT OF SLURM
//
// JOB is a job id or, better, a SLUID, which never means another job later.
//
// Every connection is served by a child process that reads the token again, so that a renewed token takes effect at once
// and a library call that hangs or crashes affects no other request. README.md has the licence.

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

enum { LINE = 256, TOKEN = 16384, CHILDREN = 8, SECONDS = 20 };

static void die(const char *what)
{
	fprintf(stderr, "slurm-complete: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof at.sun_path) {
		errno = ENAMETOOLONG;
		die(path);
	}
	strcpy(at.sun_path, path);
	return at;
}

// One line without its end; false if there is none of a sane length.
static int read_line(int from, char *line)
{
	size_t have = 0;
	while (have < LINE - 1) {
		ssize_t got = read(from, line + have, LINE - 1 - have);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		have += (size_t) got;
		line[have] = 0;
		char *end = strchr(line, '\n');
		if (end) {
			*end = 0;
			return 1;
		}
	}
	return 0;
}

static void answer(int to, const char *text)
{
	char line[LINE + 2];
	int size = snprintf(line, sizeof line, "%.*s\n", LINE, text);
	if (write(to, line, (size_t) size) < 0)
		fprintf(stderr, "slurm-complete: the client closed the connection before the answer\n");
}

static void refuse(int to, int number, const char *why)
{
	char text[LINE];
	snprintf(text, sizeof text, "no %d %s", number, why);
	answer(to, text);
}

// A number, or a SLUID: 's' and 13 digits to the base 32 without I, L, O and U.
static int read_job(const char *text, slurm_step_id_t *job)
{
	static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
	char rest = 0;
	if (isdigit((unsigned char) text[0]))
		return sscanf(text, "%" SCNu32 "%c", &job->job_id, &rest) == 1 && job->job_id;
	if (text[0] != 's' || strlen(text) != 14)
		return 0;
	job->job_id = 0;
	for (const char *c = text + 1; *c; c++) {
		const char *digit = strchr(digits, toupper((unsigned char) *c));
		if (!digit)
			return 0;
		job->sluid = job->sluid << 5 | (sluid_t) (digit - digits);
	}
	return job->sluid != 0;
}

// Puts the token where libslurm looks for it; a file may also say SLURM_JWT=...
static int load_token(const char *path)
{
	static char text[TOKEN];
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
	if (file >= 0)
		close(file);
	if (size <= 0)
		return 0;
	text[size] = 0;
	char *token = text + strspn(text, " \t\r\n");
	if (!strncmp(token, "SLURM_JWT=", 10))
		token += 10;
	token[strcspn(token, " \t\r\n")] = 0;
	return *token && !setenv("SLURM_JWT", token, 1);
}

static void complete(int to, const char *token_file, slurm_step_id_t job, uint32_t status)
{
	if (!load_token(token_file)) {
		refuse(to, 0, "the token cannot be read");
		return;
	}
	slurm_init(NULL);
	if (slurm_complete_job(&job, status) == SLURM_SUCCESS)
		answer(to, "ok");
	else
		refuse(to, errno, slurm_strerror(errno));
}

static void serve(int with, const char *token_file)
{
	char line[LINE] = "", name[32] = "", rest = 0;
	slurm_step_id_t job = SLURM_STEP_ID_INITIALIZER;
	uint32_t status = 0;
	alarm(SECONDS);
	if (!read_line(with, line))
		return;
	if (!strcmp(line, "ping"))
		answer(with, "ok");
	else if (sscanf(line, "complete %31s %" SCNu32 "%c", name, &status, &rest) != 2)
		refuse(with, 0, "the line is not: complete JOB WAIT_STATUS");
	else if (status > 0xffff || !read_job(name, &job))
		refuse(with, 0, "no such job id, SLUID or wait status");
	else
		complete(with, token_file, job, status);
}

static int listen_at(const char *path)
{
	struct sockaddr_un at = address_of(path);
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unlink(path);
	umask(0177);
	if (door < 0 || bind(door, (struct sockaddr *) &at, sizeof at) || listen(door, 128))
		die(path);
	return door;
}

static void answer_all(int door, const char *token_file)
{
	for (int children = 0;; ) {
		while (children && waitpid(-1, NULL, children < CHILDREN ? WNOHANG : 0) > 0)
			children--;
		int with = accept(door, NULL, NULL);
		if (with < 0) {
			if (errno != EINTR && errno != ECONNABORTED)
				die("accept");
			continue;
		}
		pid_t child = fork();
		if (!child) {
			close(door);
			signal(SIGTERM, SIG_DFL);
			serve(with, token_file);
			_exit(0);
		}
		children += child > 0;
		close(with);
	}
}

static int ask(const char *path, int words, char **word)
{
	struct sockaddr_un at = address_of(path);
	int with = socket(AF_UNIX, SOCK_STREAM, 0);
	char line[LINE] = "";
	alarm(SECONDS);
	if (with < 0 || connect(with, (struct sockaddr *) &at, sizeof at))
		die(path);
	for (int i = 0; i < words; i++)
		snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? " " : "", word[i]);
	answer(with, line);
	if (!read_line(with, line))
		strcpy(line, "no answer");
	puts(line);
	return strcmp(line, "ok") != 0;
}

static void leave(int signal_number)
{
	(void) signal_number;
	_exit(0);
}

int main(int count, char **word)
{
	if (count > 3 && !strcmp(word[1], "--ask"))
		return ask(word[2], count - 3, word + 3);
	if (count != 3) {
		fprintf(stderr, "usage: slurm-complete SOCKET TOKEN_FILE | --ask SOCKET WORD...\n");
		return 2;
	}
	signal(SIGTERM, leave); // as process 1 it would otherwise be deaf to it
	signal(SIGPIPE, SIG_IGN);
	answer_all(listen_at(word[1]), word[2]);
}
