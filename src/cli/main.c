/* main.c - entry of the one binary: verb, options, run. */
int main(void)
{
    return 2;
}
