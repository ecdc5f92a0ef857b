//! A map with a bound that forgets what was not used lately.
//!
//! It exists for the caches of one thread. Second chance: an entry that was used since the hand last passed
//! it is spared once, so a look-up only sets a mark. It refuses to grow past its bound.

use std::collections::HashMap;
use std::hash::Hash;

pub(crate) struct Table<K, V> {
    places: HashMap<K, usize>,
    slots: Vec<Slot<K, V>>,
    hand: usize,
    /// The slot that was found last: what is asked for is mostly what was asked for before, and then it need not be
    /// hashed.
    last: usize,
    entries_max: usize,
}

struct Slot<K, V> {
    key: K,
    value: V,
    used: bool,
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    /// An empty table of at most `entries_max` entries, which is not 0.
    pub(crate) fn new(entries_max: usize) -> Table<K, V> {
        Table {
            places: HashMap::new(),
            slots: Vec::new(),
            hand: 0,
            last: 0,
            entries_max: entries_max.max(1),
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if self
            .slots
            .get(self.last)
            .is_none_or(|slot| slot.key != *key)
        {
            self.last = *self.places.get(key)?;
        }
        let slot = &mut self.slots[self.last];
        slot.used = true;
        Some(&mut slot.value)
    }

    /// Puts a value in, in place of the old one of this key, or of one not used lately if it is full.
    pub(crate) fn put(&mut self, key: K, value: V) -> &mut V {
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.slots.len() < self.entries_max => self.slots.len(),
            None => self.make_room(),
        };
        self.places.insert(key, place);
        // Not marked: what was only put in goes before what was asked for.
        let slot = Slot {
            key,
            value,
            used: false,
        };
        if place == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[place] = slot;
        }
        &mut self.slots[place].value
    }

    /// Forgets everything for which `keep` is false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.slots.retain(|slot| keep(&slot.key, &slot.value));
        let places = self.slots.iter().enumerate();
        self.places = places.map(|(place, slot)| (slot.key, place)).collect();
        self.hand = 0;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        assert_eq!(self.places.len(), self.slots.len());
        self.slots.len()
    }

    /// The place of an entry that is given up. Ends within two rounds: the first takes every mark.
    fn make_room(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[place];
            if !std::mem::take(&mut slot.used) {
                self.places.remove(&slot.key);
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_grows_and_spares_what_is_used() {
        let mut table = Table::new(8);
        for n in 0..1_000_u32 {
            *table.put(n, 0) += n;
            assert!(table.get(&0).is_some(), "0 is used all the time ({n})");
            assert!(table.len() <= 8);
        }
        assert_eq!(table.len(), 8);
        // Where all are used, one goes all the same.
        for n in 0..1_000 {
            table.put(n, n);
            assert_eq!(table.get(&n), Some(&mut { n }));
        }
        assert_eq!(table.len(), 8);
    }

    #[test]
    fn what_is_put_again_is_replaced_and_what_is_not_retained_is_gone() {
        let mut table = Table::new(4);
        for n in 0..4 {
            table.put(n, n);
        }
        table.put(2, 20);
        table.retain(|_, n| n % 2 == 0);
        assert_eq!(table.len(), 2);
        assert_eq!(table.get(&0), Some(&mut 0));
        assert_eq!(table.get(&1), None);
        assert_eq!(table.get(&2), Some(&mut 20));
        for n in 5..50 {
            table.put(n, n);
        }
        assert_eq!(table.len(), 4);
    }
}
