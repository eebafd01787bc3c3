//! What extraction restores: content, holes, links, modes, times, owners, attributes.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use nra::convert::OwnerPolicy;
use nra::convert::select::Selection;
use nra::format::entry::{Attribute, Kind, Namespace};
use nra::format::progress::Recorder;

use crate::common::{self, child};
use crate::fake::{Fake, Run, group, mode, owner, time, xattrs};
use crate::{Extraction, Place, expect, messages};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn tree_is_restored() {
    let place = Place::new();
    let archive = Fake::new()
        .dir("a")
        .file_with("a/run.sh", b"#!", mode(0o755))
        .file_with("a/secret", b"s", mode(0o600))
        .entry("b", Kind::Directory, mode(0o700))
        .file("b/empty", b"")
        .file("b/implied/x", b"x")
        .entry("c", Kind::Fifo, mode(0o640))
        .symlink("d", "nowhere/at all");
    let (result, warnings) = place.extract(&archive);
    assert_eq!(messages(&warnings), Vec::<String>::new());
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.directories, stats.symlinks, stats.specials, stats.bytes), (4, 2, 1, 1, 4));
    assert_eq!(
        place.tree(),
        expect([
            ("a", "dir 755"),
            ("a/run.sh", "file 755 #!"),
            ("a/secret", "file 600 s"),
            ("b", "dir 700"),
            ("b/empty", "file 644 "),
            ("b/implied", "dir 755"),
            ("b/implied/x", "file 644 x"),
            ("c", "fifo 640"),
            ("d", "symlink nowhere/at all"),
        ])
    );
}

#[test]
fn times_are_restored_to_the_nanosecond() {
    let place = Place::new();
    let archive = Fake::new()
        .entry("d", Kind::Directory, time(-5, 999_999_999))
        .file_with("d/f", b"x", time(1_234_567_890, 123_456_789))
        .entry("d/l", Kind::Symlink, |entry| {
            entry.target = (*b"f").into();
            time(1, 2)(entry);
        })
        .entry("d/p", Kind::Fifo, time(3, 4))
        .file_with("mad", b"x", time(i64::MAX, u32::MAX));
    let (result, warnings) = place.extract(&archive);
    result.unwrap();
    assert!(warnings.iter().all(|warning| warning.path == b"mad"));
    for (path, seconds, nanoseconds) in
        [("d", -5, 999_999_999), ("d/f", 1_234_567_890, 123_456_789), ("d/l", 1, 2), ("d/p", 3, 4)]
    {
        let metadata = place.at(path).symlink_metadata().unwrap();
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (seconds, nanoseconds), "{path}");
    }
    let (result, _) = place
        .extract_with(&Fake::new().file_with("now", b"x", time(5, 5)), |extraction| extraction.options.metadata.times = false);
    result.unwrap();
    assert!(place.at("now").metadata().unwrap().mtime() > 1_000_000_000);
}

#[test]
fn holes_are_restored() {
    const MIB: usize = 1 << 20;
    let place = Place::new();
    let runs =
        vec![Run::Hole(64 << 20), Run::Data(vec![7; MIB]), Run::Hole(64 << 20), Run::Data(b"end".to_vec()), Run::Hole(1 << 20)];
    let archive = Fake::new().runs("sparse", runs, |_| {}).runs("hole", vec![Run::Hole(1 << 30)], |_| {});
    place.extract(&archive).0.unwrap();
    let metadata = place.at("sparse").metadata().unwrap();
    assert_eq!(metadata.len(), (130 << 20) + 3);
    assert!(metadata.blocks() * 512 < 4 << 20, "{} blocks", metadata.blocks());
    let content = std::fs::read(place.at("sparse")).unwrap();
    assert!(content[..64 * MIB].iter().all(|byte| *byte == 0) && content[64 * MIB..65 * MIB].iter().all(|byte| *byte == 7));
    assert_eq!(&content[129 * MIB..129 * MIB + 4], b"end\0");
    let metadata = place.at("hole").metadata().unwrap();
    assert_eq!((metadata.len(), metadata.blocks()), (1 << 30, 0));
}

#[test]
fn hard_links_are_restored() {
    let place = Place::new();
    let archive = Fake::new()
        .file_with("a", b"same", group(7))
        .file_with("d/b", b"same", group(7))
        .file_with("e", b"same", group(8))
        .file_with("z", b"same", group(7));
    let (result, _) = place.extract(&archive);
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.links, stats.bytes), (4, 2, 16));
    let inode = |path| place.at(path).metadata().unwrap().ino();
    assert!(inode("a") == inode("d/b") && inode("a") == inode("z") && inode("a") != inode("e"));
}

#[test]
fn copy_instead_of_hard_link_is_reported() {
    child::run_on_small_disk("fidelity::copy_instead_of_hard_link_is_reported", |directory| {
        let other = directory.join("out/other");
        std::fs::create_dir_all(&other).unwrap();
        assert!(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&other).status().unwrap().success());
        let archive = Fake::new().file_with("a", b"same", group(7)).file_with("other/b", b"same", group(7));
        let recorder = Recorder::default();
        let extraction = Extraction::to("out");
        let stats = extraction.run(&archive, &Selection::all(), &recorder).unwrap();
        assert_eq!((stats.files, stats.links), (2, 0));
        assert_eq!(std::fs::read(other.join("b")).unwrap(), b"same");
        let warnings = messages(&recorder.take_warnings());
        assert!(warnings.len() == 1 && warnings[0].starts_with("other/b: a copy, not a hard link: "), "{warnings:?}");
    });
}

#[test]
fn hard_links_are_restored_across_batches() {
    let place = Place::new();
    let mut archive = Fake::new().file_with("a", b"same", group(1));
    for number in 0..300 {
        archive = archive.entry(&format!("d{number:03}"), Kind::Directory, |entry| {
            mode(0o555)(entry);
            time(9, 9)(entry);
        });
        archive = archive.file_with(&format!("d{number:03}/f"), b"x", mode(0o444));
        archive = archive.file_with(&format!("d{number:03}/h"), b"same", group(1));
    }
    let (result, warnings) = place.extract_with(&archive, |extraction| extraction.options.memory_bytes = 4096);
    assert_eq!(messages(&warnings), Vec::<String>::new());
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.links, stats.directories), (601, 300, 300));
    assert_eq!(place.at("d299/h").metadata().unwrap().nlink(), 301);
    for number in [0, 150, 299] {
        let metadata = place.at(&format!("d{number:03}")).metadata().unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.mtime(), metadata.mtime_nsec()), (0o555, 9, 9));
    }
}

#[test]
fn umask_applies_unless_modes_are_exact() {
    for (exact, expected) in [(true, "file 666 x"), (false, "file 640 x")] {
        let place = Place::new();
        let archive = Fake::new().file_with("f", b"x", mode(0o666));
        place
            .extract_with(&archive, |extraction| {
                (extraction.sink.umask, extraction.sink.exact_modes) = (Some(0o027), Some(exact))
            })
            .0
            .unwrap();
        assert_eq!(place.tree()["f"], expected);
    }
}

#[test]
fn extended_attributes_are_restored() {
    let place = Place::new();
    if rustix::fs::setxattr(place.out(), "user.probe", b"1", rustix::fs::XattrFlags::empty()).is_err() {
        common::skip("this file system has no extended attributes");
        return;
    }
    let archive = Fake::new()
        .entry("d", Kind::Directory, |entry| {
            xattrs(&[("user.x", b"of a directory")])(entry);
            mode(0o500)(entry);
        })
        .file_with("d/f", b"x", |entry| {
            xattrs(&[("security.capability", b"\x01"), ("system.posix_acl_access", ACL), ("user.x", b"of a file")])(entry);
            mode(0o444)(entry);
        })
        .file_with("no", b"x", xattrs(&[("odd.name", b"")]));
    let (result, warnings) = place.extract(&archive);
    result.unwrap();
    let get = |path: &str, name: &str| {
        let mut value = vec![0; 100];
        rustix::fs::lgetxattr(place.at(path), name, &mut value).map(|len| value[..len].to_vec())
    };
    assert_eq!(get("d", "user.x").unwrap(), b"of a directory");
    assert_eq!(get("d/f", "user.x").unwrap(), b"of a file");
    assert!(get("d/f", "security.capability").is_err());
    if get("d/f", "system.posix_acl_access").is_ok_and(|value| !value.is_empty()) {
        assert_eq!(get("d/f", "system.posix_acl_access").unwrap(), ACL);
    }
    assert!(messages(&warnings).iter().any(|text| text.starts_with("no: extended attribute odd.name not restored: ")));
    let archive = Fake::new().file_with("without", b"x", xattrs(&[("user.x", b"1")]));
    place.extract_with(&archive, |extraction| extraction.options.metadata.xattrs = false).0.unwrap();
    assert!(get("without", "user.x").is_err());
}

/// user::r--, user:1000:r--, group::r--, mask::r--, other::r--
const ACL: &[u8] = b"\x02\0\0\0\x01\0\x04\0\xff\xff\xff\xff\x02\0\x04\0\xe8\x03\0\0\x04\0\x04\0\xff\xff\xff\xff\
\x10\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";

#[test]
fn root_restores_owners_and_special_bits() {
    if !is_root() {
        common::skip("only root can set owners");
        return;
    }
    let place = Place::new();
    let with = |id: u64, bits: u16| {
        move |entry: &mut nra::format::entry::Entry| {
            owner(id, id.wrapping_add(1))(entry);
            mode(bits)(entry);
        }
    };
    let archive = Fake::new()
        .entry("d", Kind::Directory, with(1234, 0o2750))
        .file_with("d/su", b"x", with(4321, 0o4711))
        .entry("l", Kind::Symlink, |entry| {
            entry.target = (*b"d").into();
            owner(5, 6)(entry);
        })
        .file_with("odd", b"x", with(u64::MAX, 0o600));
    let ids = |path: &str| {
        let metadata = place.at(path).symlink_metadata().unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
    };
    let (result, warnings) = place.extract_with(&archive, |extraction| extraction.sink.special = true);
    result.unwrap();
    assert_eq!(messages(&warnings), Vec::<String>::new());
    assert_eq!((ids("d"), ids("d/su")), ((1234, 1235, 0o2750), (4321, 4322, 0o4711)));
    assert_eq!((ids("l").0, ids("odd").0), (5, 0));
    let place = Place::new();
    place.extract_with(&archive, |extraction| extraction.options.metadata.owner = OwnerPolicy::Omit).0.unwrap();
    let metadata = place.at("d/su").metadata().unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (0, 0o711));
}

#[test]
fn special_creates_devices() {
    let place = Place::new();
    let (result, warnings) = place.extract_with(&Fake::new().device("null", 1, 3), |extraction| extraction.sink.special = true);
    let stats = result.unwrap();
    // In a container, this may fail even for root.
    assert_eq!(stats.specials + stats.skipped, 1);
    assert_eq!(u64::try_from(warnings.len()).unwrap(), stats.skipped);
    if stats.specials == 1 {
        assert_eq!(place.tree()["null"], format!("device 644 {}", rustix::fs::makedev(1, 3)));
    }
}

#[test]
fn read_only_directories_are_filled() {
    child::run("fidelity::read_only_directories_are_filled", true, |directory| {
        let archive = Fake::new()
            .entry("ro", Kind::Directory, mode(0o555))
            .file_with("ro/foo", b"1", mode(0o444))
            .entry("ro/sub", Kind::Directory, mode(0o500))
            .file("ro/sub/x", b"2")
            .entry("zero", Kind::Directory, mode(0))
            .file("zero/y", b"3");
        let extract = |overwrite| {
            let mut extraction = Extraction::to(directory.join("out"));
            extraction.sink.overwrite = overwrite;
            let recorder = nra::format::progress::Recorder::default();
            let stats = extraction.run(&archive, &Selection::all(), &recorder);
            assert_eq!(messages(&recorder.take_warnings()), Vec::<String>::new());
            stats
        };
        use nra::convert::Overwrite;
        assert_eq!(extract(Overwrite::Refuse).unwrap().files, 3);
        let modes = || ["ro", "ro/sub", "zero"].map(|path| directory.join("out").join(path).metadata().unwrap().mode() & 0o777);
        assert_eq!(modes(), [0o555, 0o500, 0]);
        assert_eq!(std::fs::read(directory.join("out/ro/foo")).unwrap(), b"1");
        // Again, into directories that are read-only now.
        assert_eq!(extract(Overwrite::Replace).unwrap().files, 3);
        assert_eq!(modes(), [0o555, 0o500, 0]);
        std::fs::set_permissions(directory.join("out/zero"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    });
}

#[test]
fn unprivileged_user_gets_modes_reduced_by_umask() {
    child::run("fidelity::unprivileged_user_gets_modes_reduced_by_umask", true, |directory| {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
        let archive = Fake::new().file_with("f", b"x", |entry| {
            mode(0o777)(entry);
            owner(0, 0)(entry);
        });
        let extraction = Extraction::to(directory.join("out"));
        let recorder = nra::format::progress::Recorder::default();
        extraction.run(&archive, &Selection::all(), &recorder).unwrap();
        assert!(recorder.take_warnings().is_empty());
        assert_eq!(directory.join("out/f").metadata().unwrap().mode() & 0o7777, 0o750);
        assert_eq!(directory.join("out").metadata().unwrap().mode() & 0o7777, 0o750);
    });
}

#[test]
fn metadata_of_top_directory_is_restored() {
    let attribute = |name: &[u8], value: &[u8]| Attribute { namespace: Namespace::Nra, name: name.into(), value: value.into() };
    let archive = Fake::new().file("a", b"x").attributes(vec![
        attribute(b"root-mode", b"2750"),
        attribute(b"root-time", b"1234567890.000000007"),
        attribute(b"root-owner", b"0:77::"),
        Attribute { namespace: Namespace::Xattr, name: b"user.top"[..].into(), value: b"v"[..].into() },
    ]);
    let place = Place::new();
    let target = place.at("new/target");
    let change = |extraction: &mut Extraction<'_>| {
        extraction.sink.target = nra::convert::DirectoryTarget::Exactly(target.clone());
    };
    place.extract_with(&archive, change).0.unwrap();
    let metadata = target.metadata().unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime(), metadata.mtime_nsec()), (0o750, 1_234_567_890, 7));
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(&target, "user.top", &mut value).unwrap(), 1);
    if rustix::process::geteuid().is_root() {
        assert_eq!((metadata.uid(), metadata.gid()), (0, 77));
    }
    // An existing directory keeps its metadata.
    let place = Place::new();
    place.extract(&archive).0.unwrap();
    assert_ne!(place.out().metadata().unwrap().mtime(), 1_234_567_890);
}
