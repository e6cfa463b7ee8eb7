/* flight.pml - one key, NODES servers, one record in Redis: what may go wrong, in every order.
 *
 * Model. Each node asks once and takes part until it has an answer. JOIN, PUT and DROP are atomic, as the scripts of
 * src/flight/share_scripts.h are; a push may be lost; a lease may end while its holder still makes (a slow leader, a
 * stopped process, a clock that jumped), and ends for certain when its holder is dead. There is no clock of time:
 * `fences` alone orders leases. How often each fault happens is a budget given by -D: LOSSES (the record is gone:
 * eviction, restart), CRASHES (a node dies), PUSHES (a push is lost), ENDS (a lease ends early), ERRORS (making fails),
 * DROPS (somebody purges the key).
 * A value may also end (STALES): the next to ask makes another, and the one before is kept beside it, as PUT does. Each
 * node that was answered asks once more and names the version it got, as a client without a display does; a display's
 * list never ends, so for displays STALES is 0 and S1 says that they see one.
 *   Not in it: what nodes keep for themselves, times of life, RENEW, ABORT, OFFER.
 *
 * Claims (docs/flights.md, 7)
 *   safe   S3: values are not made more often than once, and once more for each fault that allows it. Asserted on the
 *          way: S1, all answers between two losses are of one version, if none ended; S8, what was begun before a drop
 *          is not stored behind it; S9, whoever names the version it got is given that one, unless the record was lost
 *          or dropped
 *   live   L1: every node that lives gets its answer. For weak fairness, with -DLIVE
 *
 * Mutants, each of which has to be found out: DROP_FORGETS_FENCE (a drop deletes the record and leaves no fence),
 * PUT_TRUSTS_ALL (a PUT is accepted whatever its token), NO_TIMER (who waits goes by pushes alone), PUT_KEEPS_NONE (what is
 * replaced is gone), DROP_KEEPS (a drop leaves what was replaced). */

#define NODES 3
#define NOBODY 255

/* The record. `fence` is the token of the last lease; a record that is not there has none. */
bool there = false;
byte fence = 0;
bool leased = false;
byte holder = NOBODY;
bool has_value = false;
byte version = 0;
bool has_error = false;
bool waits[NODES];
bool ended = false;     /* the value's time is over */
byte kept = 0;          /* a bit a version that was replaced */

byte fences = 0;        /* the greatest ever given: Redis TIME, which a loss does not take back */

/* The nodes, as seen from outside. */
bool started = false;
bool alive[NODES];
bool pushed[NODES];     /* a push has arrived and was not looked at */
bool answered[NODES];

/* What is left of each budget. */
byte losses = LOSSES;
byte crashes = CRASHES;
byte pushes = PUSHES;
byte ends = ENDS;
byte errors = ERRORS;
byte drops = DROPS;
byte stales = STALES;

/* For the claims. */
byte made = 0;
byte shown = 0;         /* the version answered first; 0: none */
bool may_differ = false; /* it was lost or dropped, or a value ended: from here on two versions may be seen */
byte drop_fence = 0;    /* of the last drop */
bool may_lose = false;   /* the record was lost or dropped: a version may be gone */
bool lost_since = false; /* the record was lost behind that drop, so its fence is gone too */

inline push_all()
{
    atomic {
        byte to;
        for (to : 0 .. NODES - 1) {
            if
            :: waits[to] ->
                if
                :: pushed[to] = true
                :: pushes > 0 -> pushes--
                fi
                waits[to] = false
            :: else
            fi
        }
    }
}

inline forget_record()
{
    leased = false;
    holder = NOBODY;
    has_value = false;
    version = 0;
    has_error = false;
    ended = false;
    kept = 0
}

inline answer_with(which)
{
    answered[me] = true;
    got = which;
    if
    :: shown == 0 -> shown = which
    :: else -> assert(may_differ || which == shown)
    fi
}

/* The script JOIN of a look for one version. */
inline ask_again()
{
    atomic {
        if
        :: (has_value && version == got) || (kept & (1 << got)) != 0 -> assert(got > drop_fence || lost_since)
        :: else -> assert(got == 0 || may_lose)
        fi
    }
}

#define JOINING 0
#define WAITING 1
#define LEADING 2

#ifdef PUT_TRUSTS_ALL
#define ACCEPTED true
#else
#define ACCEPTED (fence == token || !there)
#endif

proctype Node(byte me)
{
    byte token;
    byte state;
    byte got;

    do
    :: !alive[me] || answered[me] -> break

    :: alive[me] && !answered[me] && state == JOINING ->    /* the script JOIN */
        atomic {
            if
            :: !alive[me]
            :: alive[me] && has_value && !ended -> answer_with(version)
            :: alive[me] && (!has_value || ended) && has_error -> answered[me] = true
            :: alive[me] && (!has_value || ended) && !has_error && leased ->
                waits[me] = true;
                there = true;
                state = WAITING
            :: alive[me] && (!has_value || ended) && !has_error && !leased ->
                fences++;
                fence = fences;
                token = fence;
                leased = true;
                holder = me;
                there = true;
                made++;
                state = LEADING
            fi
        }

    :: alive[me] && !answered[me] && state == WAITING && pushed[me] ->
        atomic { pushed[me] = false; state = JOINING }
#ifndef NO_TIMER
    :: alive[me] && !answered[me] && state == WAITING && !pushed[me] && !leased ->
        state = JOINING            /* the timer of a lease that has ended */
    :: alive[me] && !answered[me] && state == WAITING && !pushed[me] && leased && timeout ->
        state = JOINING            /* the timer, while another holds the lease or has renewed it */
#endif

    :: alive[me] && !answered[me] && state == LEADING ->    /* it is made, or not; the script PUT */
        atomic {
            if
            :: !alive[me]
            :: alive[me] && ACCEPTED ->
                if
                :: assert(token > drop_fence || lost_since);
#ifndef PUT_KEEPS_NONE
                    if
                    :: has_value && version != token -> kept = kept | (1 << version)
                    :: else
                    fi;
#endif
                    has_value = true;
                    ended = false;
                    version = token;
                    leased = false;
                    holder = NOBODY;
                    fence = token;
                    there = true;
                    push_all();
                    answer_with(token)
                :: errors > 0 ->
                    errors--;
                    has_error = true;
                    leased = false;
                    holder = NOBODY;
                    fence = token;
                    there = true;
                    push_all();
                    answered[me] = true
                fi
            :: alive[me] && !(ACCEPTED) -> state = JOINING    /* LOST: its own is thrown away */
            fi
        }
    od;
    if
    :: answered[me] -> ask_again()
    :: else
    fi
}

active proctype Faults()
{
    byte i;
#ifdef DROP_KEEPS
    byte before;
#endif

    do
    :: leased && ends > 0 -> atomic { leased -> leased = false; ends-- }
    :: atomic { leased && holder != NOBODY && !alive[holder] -> leased = false }
    :: stales > 0 && has_value && !ended -> atomic { stales--; ended = true; may_differ = true }
    :: losses > 0 ->
        atomic {
            losses--;
            may_lose = true;
            forget_record();
            fence = 0;
            there = false;
            may_differ = true;
            lost_since = true;
            for (i : 0 .. NODES - 1) { waits[i] = false }
        }
    :: crashes > 0 && alive[0] -> atomic { alive[0] = false; crashes-- }
    :: crashes > 0 && alive[1] -> atomic { alive[1] = false; crashes-- }
    :: drops > 0 ->                /* the script DROP */
        atomic {
            drops--;
            fences++;
            drop_fence = fences;
            may_lose = true;
#ifdef DROP_KEEPS
            before = kept;
#endif
            forget_record();
#ifdef DROP_KEEPS
            kept = before;
#endif
#ifdef DROP_FORGETS_FENCE
            fence = 0;
            there = false;
#else
            fence = fences;
            there = true;
#endif
            may_differ = true;
            lost_since = false;
            push_all()
        }
    :: timeout -> break
    od
}

init
{
    atomic {
        byte n;
        for (n : 0 .. NODES - 1) { alive[n] = true }
        started = true;
        run Node(0);
        run Node(1);
        run Node(2)
    }
}

#define ALLOWED (1 + (LOSSES - losses) + (CRASHES - crashes) + (ENDS - ends) + (DROPS - drops) + (STALES - stales))
#define ALL_ANSWERED (started && (answered[0] || !alive[0]) && (answered[1] || !alive[1]) && (answered[2] || !alive[2]))

#ifdef LIVE
ltl live { <> ALL_ANSWERED }
#else
ltl safe { [] (made <= ALLOWED) }
#endif
