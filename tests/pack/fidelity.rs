//! The metadata and content that are kept.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nra::convert::{MetadataPolicy, OwnerPolicy};
use nra::format::archive::Part;
use nra::format::entry::{Kind, Namespace, Timestamp};
use nra::format::progress::Severity;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};

use crate::common::{self, child, noise};
use crate::{Packed, Packing, Place, bytes, is_root};

/// A directory name that is not UTF-8.
const ODD: &[u8] = b"odd \xff\n'*\x1b[31m";

fn set_time(path: &Path, time: SystemTime) {
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Creates a tree with every kind of entry.
fn build(place: &Place) {
    for (name, len) in [("empty", 0), ("one", 1), ("page", 4096), ("small", 131_072), ("large", 131_073), ("larger", 1_500_003)] {
        place.write(&format!("files/{name}"), noise(len, len as u64));
    }
    place.write("files/text", "some words, again and again. ".repeat(40_000));
    fs::set_permissions(place.write("modes/run", "#!"), Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(place.write("modes/mine", "x"), Permissions::from_mode(0o600)).unwrap();
    fs::create_dir_all(place.input("modes/shared")).unwrap();
    fs::set_permissions(place.input("modes/shared"), Permissions::from_mode(0o1777)).unwrap();
    fs::create_dir_all(place.input("nothing/in/here")).unwrap();

    let odd = place.input(Path::new(std::ffi::OsStr::from_bytes(ODD)));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("n".repeat(255)), "long").unwrap();
    fs::write(odd.join("-rf"), "dash").unwrap();
    symlink(std::ffi::OsStr::from_bytes(b"../\xfe/target"), odd.join("link")).unwrap();
    symlink("..", place.input("up")).unwrap();
    symlink("/", place.input("root")).unwrap();

    let first = place.write("links/a", noise(200_000, 7));
    fs::hard_link(&first, place.input("links/b")).unwrap();
    fs::hard_link(&first, place.input("files/linked")).unwrap();
    fs::hard_link(place.write("links/single", "once"), place.at("outside")).unwrap();
    fs::hard_link(place.write("links/void", ""), place.input("links/void2")).unwrap();

    let sparse = File::create(place.input("sparse")).unwrap();
    sparse.set_len(10 << 20).unwrap();
    sparse.write_all_at(&noise(300_000, 8), 1 << 20).unwrap();
    sparse.write_all_at(b"island", 5 << 20).unwrap();
    File::create(place.input("all hole")).unwrap().set_len(1 << 30).unwrap();

    mknodat(CWD, place.input("fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    setxattr(place.input("files/one"), "user.note", b"a value", XattrFlags::empty()).unwrap();
    setxattr(place.input("nothing"), "user.of a directory", b"", XattrFlags::empty()).unwrap();
    set_time(&place.input("files/one"), SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789));
    set_time(&place.input("files/page"), SystemTime::UNIX_EPOCH - Duration::new(3600, 500));
    set_time(&place.input("nothing/in"), SystemTime::UNIX_EPOCH + Duration::new(1, 999_999_999));
}

/// Compares the archive with the tree.
fn compare(place: &Place, packed: &Packed) {
    let top = place.at("in");
    let mut on_disk = Vec::new();
    let mut queue = vec![top.clone()];
    while let Some(directory) = queue.pop() {
        for item in fs::read_dir(directory).unwrap() {
            let path = item.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                queue.push(path.clone());
            }
            on_disk.push(path);
        }
    }
    assert_eq!(packed.entries.len(), on_disk.len());
    for path in on_disk {
        let stored = bytes(path.strip_prefix(&top).unwrap());
        let entry = packed.entry(stored);
        let is = path.symlink_metadata().unwrap();
        assert_eq!(u32::from(entry.metadata.mode), is.mode() & 0o7777, "{}", entry.path);
        let time = Timestamp { seconds: is.mtime(), nanoseconds: u32::try_from(is.mtime_nsec()).unwrap() };
        assert_eq!(entry.modified, Some(time), "{}", entry.path);
        let owner = entry.metadata.owner.as_ref().unwrap();
        assert_eq!((owner.user_id, owner.group_id), (is.uid().into(), is.gid().into()));
        match entry.kind {
            Kind::File => {
                assert!(is.is_file());
                assert_eq!(entry.size, is.len());
                if is.len() < 1 << 28 {
                    assert!(packed.content(stored) == fs::read(&path).unwrap(), "content of {}", entry.path);
                }
            }
            Kind::Directory => assert!(is.is_dir()),
            Kind::Symlink => assert_eq!(&*entry.target, bytes(&fs::read_link(&path).unwrap())),
            Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => {
                assert_eq!(entry.device.is_some(), entry.kind != Kind::Fifo);
            }
        }
    }
    let group = |path: &str| packed.entry(path).link_group;
    assert!(group("links/a") != 0 && group("links/a") == group("links/b") && group("links/a") == group("files/linked"));
    assert!(group("links/void") != 0 && group("links/void") == group("links/void2") && group("links/void") != group("links/a"));
    assert_eq!((group("links/single"), group("files/text")), (0, 0));
    let attributes = &packed.entry("files/one").metadata.attributes;
    let found: Vec<_> = attributes.iter().filter(|attribute| attribute.name.starts_with(b"user.")).collect();
    assert_eq!((&*found[0].name, &*found[0].value, found.len()), (&b"user.note"[..], &b"a value"[..], 1));
    assert_eq!(found[0].namespace, Namespace::Xattr);
    assert_eq!(&*packed.entry("nothing").metadata.attributes[0].name, b"user.of a directory");

    let mut holes = 0;
    let mut count = |path: &str| {
        holes = 0;
        let sink = &mut |part: Part<'_>| {
            if let Part::Hole(len) = part {
                holes += len;
            }
            Ok(())
        };
        packed.archive.with_content(packed.entry(path), nra::format::archive::Access::Sequential, sink).unwrap();
        holes
    };
    assert_eq!(count("all hole"), 1 << 30);
    assert!(count("sparse") > 8 << 20);
}

fn every_kind(place: &Place) {
    build(place);
    let packed = place.packed(&Packing::new());
    compare(place, &packed);
    // Only 1.9 MB of noise take space: holes, links and repeated words do not.
    assert!(fs::metadata(place.output()).unwrap().len() < 2_500_000);
    let top = place.at("in").metadata().unwrap();
    let attribute = |name: &[u8]| {
        let found = packed.archive.info().attributes.iter().find(|attribute| *attribute.name == *name).unwrap();
        String::from_utf8(found.value.to_vec()).unwrap()
    };
    assert_eq!(attribute(b"root-mode"), format!("{:o}", top.mode() & 0o7777));
    assert_eq!(attribute(b"root-time"), format!("{}.{:09}", top.mtime(), top.mtime_nsec()));
}

#[test]
fn every_kind_of_entry_is_kept() {
    every_kind(&Place::new());
}

#[test]
fn every_kind_of_entry_is_kept_for_unprivileged_user() {
    child::run("fidelity::every_kind_of_entry_is_kept_for_unprivileged_user", true, |directory| {
        assert!(!is_root());
        every_kind(&Place::within(directory));
    });
}

#[test]
fn devices_and_owners_are_kept() {
    if !is_root() {
        common::skip("only root can create devices");
        return;
    }
    let place = Place::new();
    let device = rustix::fs::makedev(7, 300);
    if mknodat(CWD, place.input("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), device).is_err() {
        common::skip("no devices can be created");
        return;
    }
    std::os::unix::fs::chown(place.write("file", "x"), Some(1234), Some(5678)).unwrap();
    std::os::unix::fs::chown(place.write("named", "x"), Some(0), Some(0)).unwrap();
    let packed = place.packed(&Packing::new());
    let null = packed.entry("null");
    let device = null.device.unwrap();
    assert_eq!((null.kind, device.major, device.minor), (Kind::CharacterDevice, 7, 300));
    let owner = |path: &str| packed.entry(path).metadata.owner.clone().unwrap();
    assert_eq!((owner("file").user_id, owner("file").group_id), (1234, 5678));
    assert_eq!(&*owner("named").user, b"root");
}

#[test]
fn sockets_are_skipped_with_a_warning() {
    let place = Place::new();
    place.write("file", "x");
    let _listener = UnixListener::bind(place.input("socket")).unwrap();
    let (result, warnings) = place.pack(&Packing::new());
    assert_eq!(result.unwrap().skipped, 1);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].severity == Severity::Degraded && warnings[0].path.ends_with(b"in/socket"), "{warnings:?}");
    assert_eq!(Packed::open(&place.output()).paths(), ["file"]);
}

#[test]
fn omitted_metadata_is_not_recorded() {
    let place = Place::new();
    setxattr(place.write("d/f", "x"), "user.note", b"v", XattrFlags::empty()).unwrap();
    let plain = Packing::with(|packing| {
        packing.options.metadata =
            MetadataPolicy { owner: OwnerPolicy::Omit, xattrs: false, times: false, ..MetadataPolicy::default() };
    });
    let packed = place.packed(&plain);
    for entry in packed.entries.values() {
        assert!(entry.metadata.owner.is_none() && entry.metadata.attributes.is_empty() && entry.modified.is_none());
    }
    assert!(packed.archive.info().attributes.iter().all(|attribute| &*attribute.name != b"root-time"));
    fs::remove_file(place.output()).unwrap();
    let packed = place.packed(&Packing::with(|packing| packing.options.metadata.owner = OwnerPolicy::Ids));
    assert!(packed.entry("d").metadata.owner.as_ref().unwrap().user.is_empty());
}

#[test]
fn access_control_lists_are_kept() {
    let place = Place::new();
    let file = place.write("f", "x");
    let set = std::process::Command::new("setfacl").args(["-m", "u:4321:rwx"]).arg(&file).status();
    if !set.is_ok_and(|status| status.success()) {
        common::skip("no access control lists can be set");
        return;
    }
    let packed = place.packed(&Packing::new());
    let attributes = &packed.entry("f").metadata.attributes;
    assert!(attributes.iter().any(|attribute| &*attribute.name == b"system.posix_acl_access"), "{attributes:?}");
}

#[test]
fn symlinks_are_followed_on_request() {
    let place = Place::new();
    place.write("d/f", "content");
    symlink("d", place.input("e")).unwrap();
    symlink("d/f", place.input("g")).unwrap();
    symlink("..", place.input("d/up")).unwrap();
    symlink("nowhere", place.input("dangling")).unwrap();
    symlink("itself", place.input("itself")).unwrap();
    let (result, warnings) = place.pack(&Packing::with(|packing| packing.source.follow_symlinks = true));
    assert_eq!(result.unwrap().skipped, 0);
    assert!(warnings.iter().all(|warning| warning.severity == Severity::Remark), "{warnings:?}");
    let mut messages: Vec<_> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    messages.sort_unstable();
    let above = "kept as a symlink: it refers to a directory above it";
    assert_eq!(
        messages,
        [above, above, "kept as a symlink: it refers to itself", "kept as a symlink: its target does not exist"]
    );
    let packed = Packed::open(&place.output());
    assert_eq!(packed.paths(), ["d", "d/f", "d/up", "dangling", "e", "e/f", "e/up", "g", "itself"]);
    assert_eq!(packed.content("e/f"), b"content");
    assert_eq!(packed.content("g"), b"content");
    assert_eq!(packed.entry("d/up").kind, Kind::Symlink);
    assert_eq!(packed.entry("dangling").kind, Kind::Symlink);
}

#[test]
fn owner_and_attributes_of_top_directory_are_kept() {
    let place = Place::new();
    place.write("a", "x");
    setxattr(place.at("in"), "user.top", b"v", XattrFlags::empty()).unwrap();
    let packed = place.packed(&Packing::new());
    let find = |name: &[u8]| packed.archive.info().attributes.iter().find(|a| &*a.name == name).map(|a| a.value.to_vec());
    assert_eq!(find(b"user.top"), Some(b"v".to_vec()));
    let top = place.at("in").metadata().unwrap();
    let owner = String::from_utf8(find(b"root-owner").unwrap()).unwrap();
    assert!(owner.starts_with(&format!("{}:{}:", top.uid(), top.gid())), "{owner}");
}

#[test]
fn reproducible_omits_attributes_of_the_machine() {
    let place = Place::new();
    let file = place.write("a", "x");
    if setxattr(&file, "trusted.note", b"v", XattrFlags::empty()).is_err() {
        common::skip("only root can set trusted attributes");
        return;
    }
    setxattr(&file, "user.note", b"v", XattrFlags::empty()).unwrap();
    let packed = place.packed(&Packing::with(|packing| packing.options.reproducible = true));
    let names: Vec<_> = packed.entry("a").metadata.attributes.iter().map(|a| a.name.to_vec()).collect();
    assert_eq!(names, [b"user.note".to_vec()]);
}
