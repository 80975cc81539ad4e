// Delays between attempts to connect.

const DELAY_FIRST_MILLISECONDS = 500;
const DELAY_MAX_MILLISECONDS = 30_000;
/** Share of the delay that is random, so that pages do not return at the same moment. */
const JITTER_SHARE = 0.3;

/** Returns the delay before an attempt. `attempt` begins at 0, `random` is from 0 to 1. */
export function delayMilliseconds(attempt: number, random: number): number {
  const delay = Math.min(DELAY_FIRST_MILLISECONDS * 2 ** Math.min(attempt, 16), DELAY_MAX_MILLISECONDS);
  return Math.round(delay * (1 - JITTER_SHARE * random));
}
