//! Known answers from another implementation (the Python package `cryptography`), and invalid
//! input.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::crypt::slot::{SLOT_LEN, Slot};

/// A key frame for commit 1 at offset 256 with two slots: the password `correct horse` and 32 bytes
/// of 7.
const KEY_FRAME: &str = "02000000000000006465666768696a6b6c6d6e6f707172737475767778797a7b3dd4ae3aacc7980771d0a4b6f79dbbeb4713b5022c4bc50abf3b41c9a4ac147b01000000400000000200000004000000c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7af17bbdbcd927ab2d7dafe1c49d00fb5f705027a569bf9e918bc6d8cef65a6bc52965b34d4b26766a13c68589b9f27a16d65000000000000000000000000000000000000000000000000000000000000020000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000d1032b79ca92897515ce9b1735ee799695ac2091d4d38a1b9158cd67eddaff9402730a03aeccfe0f06d66cf48bee72960000000000000000000000000000000000000000000000000000000000000000";

const CHEAP: Argon2Cost = Argon2Cost { memory_kib: 32, passes: 1, lanes: 1 };
const FIRST: KeyPlace = KeyPlace { offset: 256, commit: 1 };

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn counted<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|i| from + i as u8)
}

fn archive_key() -> KeyBytes {
    Zeroizing::new(counted(0))
}

fn unlock(payload: &[u8], secret: &Secret, place: KeyPlace) -> Result<Keyring> {
    KeyFrame::parse(payload).map_err(|detail| Error::corrupt("keys", place.offset, detail))?.unlock(
        secret,
        place,
        &mut PasswordWork::new(),
    )
}

#[test]
fn frame_keys_and_segments_match_the_spec() {
    let key = Session::with_salt(&archive_key(), counted(100)).frame_key(4096, 1);
    assert_eq!(key.mac, 0x3472_21a6_91e3_7093);
    let mut payload = *b"hello, nra\n";
    let tag = key.seal(FramePart::Payload, 0, &mut payload);
    assert_eq!([&payload[..], &tag].concat(), bytes("549d8de62f85d53326b161872624d0c01b3abc8b48d6f0f31de072"));
    let mut index = *b"directory";
    let tag = key.seal(FramePart::BlockIndex, 2, &mut index);
    assert_eq!([&index[..], &tag].concat(), bytes("ad09f26ae044b09a4ac6319211a622da54e97b6756a42afde8"));
    key.open(FramePart::BlockIndex, 2, &mut index, &tag).unwrap();
    assert_eq!(&index, b"directory");
    for (part, segment) in [(FramePart::BlockIndex, 1), (FramePart::Payload, 2), (FramePart::Header, 2)] {
        assert!(key.open(part, segment, &mut index, &tag).is_err(), "{part:?} {segment}");
    }
    for other in [
        Session::with_salt(&archive_key(), counted(100)).frame_key(4104, 1),
        Session::with_salt(&archive_key(), counted(100)).frame_key(4096, 3),
        Session::with_salt(&archive_key(), counted(101)).frame_key(4096, 1),
        Session::with_salt(&Zeroizing::new(counted(1)), counted(100)).frame_key(4096, 1),
    ] {
        assert_ne!(other.mac, key.mac);
        let mut sealed = *b"hello, nra\n";
        let tag = key.seal(FramePart::Payload, 0, &mut sealed);
        assert!(other.open(FramePart::Payload, 0, &mut sealed, &tag).is_err());
    }
}

#[test]
fn key_frame_of_the_spec_is_unlocked() {
    let frame = bytes(KEY_FRAME);
    for (number, secret) in [(0, Secret::password("correct horse")), (1, Secret::user_key([7; 32]))] {
        let keyring = unlock(&frame, &secret, FIRST).unwrap();
        assert_eq!(*keyring.archive_key(), archive_key());
        assert_eq!(keyring.used(), Some(number));
        assert_eq!(keyring.frame(counted(100), FIRST), frame);
    }
    let keys = KeyFrame::parse(&frame).unwrap().list();
    let cost = Argon2Cost { memory_kib: 64, passes: 2, lanes: 4 };
    assert_eq!(keys[0], KeyInfo { kind: KeyKind::Password(cost), label: "me".into() });
    assert_eq!(keys[1], KeyInfo { kind: KeyKind::UserKey, label: String::new() });
    for secret in [Secret::password("Correct horse"), Secret::user_key([8; 32]), Secret::password([7; 32])] {
        assert!(matches!(unlock(&frame, &secret, FIRST), Err(Error::WrongKey)));
    }
    for place in [KeyPlace { offset: 264, ..FIRST }, KeyPlace { commit: 2, ..FIRST }] {
        assert!(matches!(unlock(&frame, &Secret::user_key([7; 32]), place), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn every_change_of_a_key_frame_is_detected() {
    let frame = bytes(KEY_FRAME);
    for at in 0..frame.len() {
        for bit in [0, 3, 7] {
            let mut frame = frame.clone();
            frame[at] ^= 1 << bit;
            // The user key avoids the time of Argon2. It does not depend on the other slot, but the
            // MAC does.
            assert!(unlock(&frame, &Secret::user_key([7; 32]), FIRST).is_err(), "byte {at}, bit {bit}");
        }
    }
    for len in 0..frame.len() {
        assert!(KeyFrame::parse(&frame[..len]).is_err());
    }
    let one_slot = [&1u16.to_le_bytes()[..], &frame[2..64 + SLOT_LEN]].concat();
    assert!(unlock(&one_slot, &Secret::password("correct horse"), FIRST).is_err(), "a slot was removed");
}

#[test]
fn keys_are_added_replaced_and_removed() {
    let mut keyring = Keyring::create(&Secret::password("a"), CHEAP, "first").unwrap();
    keyring.add(&Secret::user_key([3; 32]), CHEAP, "").unwrap();
    keyring.add(&Secret::password("b"), CHEAP, "third").unwrap();
    let open = |keyring: &Keyring, secret: &Secret| unlock(&keyring.frame([0; SALT_LEN], FIRST), secret, FIRST);
    assert!(open(&keyring, &Secret::user_key([3; 32])).unwrap().is_of_same_archive(&keyring));
    assert_eq!(open(&keyring, &Secret::password("b")).unwrap().used(), Some(2));
    keyring.remove(0).unwrap();
    assert!(matches!(open(&keyring, &Secret::password("a")), Err(Error::WrongKey)));
    keyring.replace(1, &Secret::password("c"), CHEAP).unwrap();
    assert!(open(&keyring, &Secret::password("b")).is_err());
    assert!(open(&keyring, &Secret::password("c")).is_ok());
    assert_eq!(keyring.list()[1].label, "third");
    keyring.remove(1).unwrap();
    assert!(matches!(keyring.remove(0), Err(Error::Usage { .. })), "the last key cannot be removed");
    assert!(matches!(keyring.remove(7), Err(Error::Usage { .. })));
    for number in 1..crate::limits::MAX_KEY_SLOTS {
        keyring.add(&Secret::user_key([number as u8; 32]), CHEAP, "").unwrap();
    }
    assert!(matches!(keyring.add(&Secret::user_key([0; 32]), CHEAP, ""), Err(Error::Limit { .. })));
    assert_eq!(keyring.frame_len(), crate::limits::MAX_KEYS as usize);
    assert!(open(&keyring, &Secret::user_key([5; 32])).is_ok());
}

#[test]
fn invalid_secrets_and_labels_are_rejected() {
    for (secret, label) in
        [(Secret::password(""), ""), (Secret::password("a"), "seventeen letters"), (Secret::password("a"), "\0")]
    {
        assert!(matches!(Keyring::create(&secret, CHEAP, label), Err(Error::Usage { .. })), "{label:?}");
    }
    assert!(Secret::from_hex(&"0aF".repeat(21)).is_none(), "63 digits");
    assert!(Secret::from_hex(&"0g".repeat(32)).is_none());
    assert!(Secret::from_hex(&"é".repeat(32)).is_none());
    let Some(Secret::UserKey(key)) = Secret::from_hex(&"0F".repeat(32)) else { panic!("64 digits are a key") };
    assert_eq!(*key, [15; 32]);
}

#[test]
fn excessive_costs_are_rejected_by_the_parser() {
    let frame = bytes(KEY_FRAME);
    let with = |memory: u32, passes: u32, lanes: u32| {
        let mut slot: [u8; SLOT_LEN] = frame[64..64 + SLOT_LEN].try_into().unwrap();
        slot[4..8].copy_from_slice(&memory.to_le_bytes());
        slot[8..12].copy_from_slice(&passes.to_le_bytes());
        slot[12..16].copy_from_slice(&lanes.to_le_bytes());
        Slot::parse(&slot)
    };
    assert!(with(1 << 20, 4, 16).is_ok());
    for (memory, passes, lanes) in [
        (u32::MAX, 1, 1),
        ((1 << 20) + 1, 1, 1),
        (1 << 20, 5, 1),
        (64, u32::MAX, 1),
        (64, 0, 1),
        (64, 1, 0),
        (1 << 20, 1, 17),
        (31, 1, 4),
        (0, 1, 1),
    ] {
        assert!(with(memory, passes, lanes).is_err(), "{memory} {passes} {lanes}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let keyring = Keyring::create(&Secret::password("hunter2"), CHEAP, "label").unwrap();
    let session = keyring.session().unwrap();
    let shown = format!(
        "{:?} {:?} {keyring:?} {session:?} {:?}",
        Secret::password("hunter2"),
        Secret::user_key([77; 32]),
        session.frame_key(0, 1)
    );
    assert!(!shown.contains("hunter2") && !shown.contains("77") && !shown.contains("0x"), "{shown}");
    let key = keyring.archive_key();
    assert!(!shown.contains(&format!("{:?}", &key[..3])[1..]));
}

#[test]
fn frame_keys_and_nonces_never_repeat() {
    // Three writers that append to copies of one file, each with 40,000 frames at the same offsets.
    let key = archive_key();
    let mut macs = HashSet::new();
    let mut salts = HashSet::new();
    for _ in 0..3 {
        let session = Session::new(&key).unwrap();
        assert!(salts.insert(*session.salt()));
        for frame in 0..40_000u64 {
            // Equal keys would have equal MACs.
            assert!(macs.insert(session.frame_key(256 + 8 * frame, 1).mac));
        }
    }
    let parts = [FramePart::Header, FramePart::Payload, FramePart::BlockIndex];
    let nonces: HashSet<_> = parts.iter().flat_map(|&part| (0..4096).map(move |segment| session::nonce(part, segment))).collect();
    assert_eq!(nonces.len(), 3 * 4096);
}

proptest! {
    #[test]
    fn segments_round_trip(len in 0usize..70_000, from in 0u64..70_000, count in 0u64..70_000) {
        let key = Session::with_salt(&archive_key(), [1; SALT_LEN]).frame_key(256, 1);
        let plain: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let mut sealed = Vec::new();
        for (number, segment) in (0..).zip(plain.chunks(SEGMENT as usize)) {
            let mut segment = segment.to_vec();
            let tag = key.seal(FramePart::Payload, number, &mut segment);
            sealed.extend_from_slice(&segment);
            sealed.extend_from_slice(&tag);
        }
        prop_assert_eq!(sealed.len() as u64, sealed_len(len as u32));
        prop_assert_eq!(key.open_segments(FramePart::Payload, 0, &sealed), (plain.clone(), true));
        let from = from.min(len as u64);
        let to = (from + count).min(len as u64);
        if from < to {
            let (first, span) = segments_of(from..to, len as u32);
            let (bytes, whole) = key.open_segments(FramePart::Payload, first, &sealed[span.start as usize..span.end as usize]);
            let skip = (from - first * u64::from(SEGMENT)) as usize;
            prop_assert!(whole);
            prop_assert_eq!(&bytes[skip..skip + (to - from) as usize], &plain[from as usize..to as usize]);
        }
        if !sealed.is_empty() {
            // Damage of a segment does not affect the others.
            let last = sealed.len() - 1;
            sealed[last] ^= 1;
            let (bytes, whole) = key.open_segments(FramePart::Payload, 0, &sealed);
            let kept = (len - 1) / SEGMENT as usize * SEGMENT as usize;
            prop_assert!(!whole);
            prop_assert_eq!(&bytes[..kept], &plain[..kept]);
            prop_assert!(bytes[kept..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn arbitrary_key_frames_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(frame) = KeyFrame::parse(&bytes) {
            prop_assert_eq!(frame.encode(), bytes);
        }
    }
}
