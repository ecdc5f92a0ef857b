//! The Merkle tree of RFC 6962, section 2.1, as far as a log that only grows needs it.
//!
//! Only the right edge is kept (one hash for each bit of the size), so that a log of any length costs a
//! kilobyte of memory. This file knows nothing of files or signatures.

use base::Digest;
use sha2::{Digest as _, Sha256};

/// SHA-256 of `0x00` and the entry: the leaf hash of RFC 6962.
pub fn leaf_hash(entry: &[u8]) -> Digest {
    let mut sha = Sha256::new();
    sha.update([0]);
    sha.update(entry);
    Digest(sha.finalize().into())
}

/// SHA-256 of `0x01` and both children: the interior hash of RFC 6962.
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut input = [1; 65];
    input[1..33].copy_from_slice(&left.0);
    input[33..].copy_from_slice(&right.0);
    Digest(Sha256::digest(input).into())
}

/// The right edge of a tree: the roots of the perfect subtrees that its size is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    /// The largest subtree first; as many as `size` has bits set.
    roots: Vec<Digest>,
}

impl Edge {
    /// Entries in the tree.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds one leaf.
    pub fn push(&mut self, leaf: Digest) {
        self.push_subtree(leaf, 0);
    }

    /// Adds a perfect subtree of `2^level` leaves. The size must be a multiple of that.
    pub fn push_subtree(&mut self, root: Digest, level: u32) {
        debug_assert_eq!(
            self.size % (1 << level),
            0,
            "a subtree stands at a multiple of its size"
        );
        let mut hash = root;
        let mut size = self.size >> level;
        while size & 1 == 1 {
            let left = self
                .roots
                .pop()
                .expect("each set bit of the size has a root");
            hash = node_hash(&left, &hash);
            size >>= 1;
        }
        self.roots.push(hash);
        self.size += 1 << level;
    }

    /// The tree's root; of an empty tree, the SHA-256 of nothing.
    pub fn root(&self) -> Digest {
        let mut roots = self.roots.iter().rev();
        let Some(last) = roots.next() else {
            return Digest(Sha256::digest([]).into());
        };
        roots.fold(*last, |right, left| node_hash(left, &right))
    }

    /// Becomes a copy of `other` without allocating where room is left from before.
    pub(crate) fn copy_from(&mut self, other: &Edge) {
        self.size = other.size;
        self.roots.clone_from(&other.roots);
    }
}

/// The root of the tree over these leaves.
pub fn root_of(leaves: &[Digest]) -> Digest {
    let mut edge = Edge::default();
    for leaf in leaves {
        edge.push(*leaf);
    }
    edge.root()
}
