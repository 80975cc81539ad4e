//! Maglev's table ("Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4): each
//! endpoint has almost the same number of places, every node makes the same table, and an endpoint that comes or goes
//! changes few places of the others.

/// Places of a table, a prime. Ten times as many as endpoints keep the shares within some percent of each other.
pub const PLACES: u32 = 1_021;

/// The endpoint at each place; none if there is no endpoint. Endpoints beyond [`PLACES`] get no place.
pub fn table<T: Copy + Ord>(mut endpoints: Vec<T>, name: impl Fn(&T) -> Vec<u8>) -> Vec<T> {
    endpoints.sort_unstable();
    endpoints.dedup();
    let mut wishes: Vec<(T, Wishes)> = endpoints
        .into_iter()
        .map(|endpoint| (endpoint, Wishes::of(&name(&endpoint))))
        .collect();
    let mut places: Vec<Option<T>> = vec![None; PLACES as usize];
    let mut free = if wishes.is_empty() { 0 } else { places.len() };
    while free > 0 {
        for (endpoint, wishes) in &mut wishes {
            // There is a free place, and the wishes of each endpoint come to all places.
            while free > 0 {
                let wish = wishes.next() as usize;
                if let Some(place) = places.get_mut(wish).filter(|place| place.is_none()) {
                    *place = Some(*endpoint);
                    free -= 1;
                    break;
                }
            }
        }
    }
    places.into_iter().flatten().collect()
}

/// The places that an endpoint wishes for, in its own order.
struct Wishes {
    next: u32,
    step: u32,
}

impl Wishes {
    fn of(name: &[u8]) -> Self {
        let hash = hash(name);
        Self {
            next: (hash >> 32) as u32 % PLACES,
            step: hash as u32 % (PLACES - 1) + 1,
        }
    }

    fn next(&mut self) -> u32 {
        let wish = self.next;
        self.next = (wish + self.step) % PLACES;
        wish
    }
}

/// FNV-1a of 64 bits, its bits mixed once more, since names differ in few.
pub fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests;
