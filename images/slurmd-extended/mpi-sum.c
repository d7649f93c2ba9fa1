// SPDX-License-Identifier: Apache-2.0
// Adds the numbers of all ranks across their hosts; rank 0 prints the sum, the number of ranks and each rank's host.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, length, sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char name[MPI_MAX_PROCESSOR_NAME] = {0};
    MPI_Get_processor_name(name, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    char *names = rank == 0 ? calloc(size, sizeof name) : NULL;
    MPI_Gather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("sum %d of %d ranks:", sum, size);
        for (int i = 0; i < size; i++)
            printf(" %s", names + i * sizeof name);
        printf("\n");
        free(names);
    }
    MPI_Finalize();
    return 0;
}
