//! The Merkle tree of RFC 6962, section 2.1, as far as a log that only grows needs it.
//!
//! Only the right edge is kept (one hash for each bit of the size), so that a log of any length costs a
//! kilobyte of memory. This file knows nothing of files or signatures.

use base::Digest;
use sha2::{Digest as _, Sha256};

/// SHA-256 of `0x00` and the entry: the leaf hash of RFC 6962.
pub(crate) fn leaf_hash(entry: &[u8]) -> Digest {
    let mut sha = Sha256::new();
    sha.update([0]);
    sha.update(entry);
    Digest(sha.finalize().into())
}

/// SHA-256 of `0x01` and both children: the interior hash of RFC 6962.
pub(crate) fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut input = [1; 65];
    input[1..33].copy_from_slice(&left.0);
    input[33..].copy_from_slice(&right.0);
    Digest(Sha256::digest(input).into())
}

/// The right edge of a tree: the roots of the perfect subtrees that its size is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    size: u64,
    /// The largest subtree first; as many as `size` has bits set.
    roots: Vec<Digest>,
}

impl Edge {
    /// An edge that was written down: nothing where a tree of this size has another number of subtrees.
    pub(crate) fn of(size: u64, roots: Vec<Digest>) -> Option<Edge> {
        (size.count_ones() as usize == roots.len()).then_some(Edge { size, roots })
    }

    /// Entries in the tree.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The roots of its perfect subtrees, the largest first.
    pub(crate) fn roots(&self) -> &[Digest] {
        &self.roots
    }

    /// Adds one leaf.
    pub(crate) fn push(&mut self, leaf: Digest) {
        self.push_subtree(leaf, 0);
    }

    /// Adds a perfect subtree of `2^level` leaves. The size must be a multiple of that.
    pub(crate) fn push_subtree(&mut self, root: Digest, level: u32) {
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
    pub(crate) fn root(&self) -> Digest {
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
pub(crate) fn root_of(leaves: &[Digest]) -> Digest {
    let mut edge = Edge::default();
    for leaf in leaves {
        edge.push(*leaf);
    }
    edge.root()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The eight leaves of Certificate Transparency's own tests, and the roots over the first 1 to 8.
    const LEAVES: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
    ];
    const ROOTS: [&str; 8] = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    fn hash(hex: &str) -> Digest {
        Digest::from_hex(hex).unwrap()
    }

    #[test]
    fn roots_are_those_of_certificate_transparency() {
        let mut edge = Edge::default();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(edge.root(), hash(empty));
        for (leaf, root) in LEAVES.iter().zip(ROOTS) {
            edge.push(leaf_hash(leaf));
            assert_eq!(edge.root(), hash(root), "{}", edge.size());
        }
    }

    #[test]
    fn known_proofs_lead_to_the_roots() {
        // Inclusion of leaf 0 in the tree of 8.
        let path = [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ];
        let root = path
            .iter()
            .fold(leaf_hash(b""), |left, right| node_hash(&left, &hash(right)));
        assert_eq!(root, hash(ROOTS[7]));
        // Consistency of the tree of 6 with that of 8.
        let five_six = hash("0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a");
        let seven_eight = hash("ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0");
        let four = hash(ROOTS[3]);
        assert_eq!(node_hash(&four, &five_six), hash(ROOTS[5]));
        assert_eq!(
            node_hash(&four, &node_hash(&five_six, &seven_eight)),
            hash(ROOTS[7])
        );
    }

    #[test]
    fn a_subtree_counts_as_its_leaves() {
        let leaves: Vec<Digest> = (0..11_u8).map(|i| leaf_hash(&[i])).collect();
        let mut edge = Edge::default();
        edge.push_subtree(root_of(&leaves[..4]), 2);
        edge.push_subtree(root_of(&leaves[4..8]), 2);
        leaves[8..].iter().for_each(|leaf| edge.push(*leaf));
        assert_eq!(edge.root(), root_of(&leaves));
        assert_eq!(edge.size(), 11);
    }
}
