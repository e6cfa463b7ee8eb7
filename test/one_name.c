/* one_name.c - links every module whole: two public functions of one name fail the build here,
 * where a plain link of static libraries would silently take the first. */
int main(void)
{
    return 0;
}
