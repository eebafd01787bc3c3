//! How files and directories become entries, as the command line says it: the same for `pack` and `add`.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::Path;

use clap::ValueEnum;

use crate::args::{FilterArgs, KeepArgs, MIN_MEMORY, ResourceArgs};
use crate::commands::attr::{self, Of};
use crate::inputs;
use crate::report::{CommandResult, Failure};
use crate::ui::Ui;
use nra_convert::pack::{GivenOwner, OwnerPolicy, PackOptions};
use nra_convert::repair::{MEMORY_BYTES, protect};
use nra_format::Error;
use nra_format::codec::{Codec, Method};
use nra_format::entry::{Attribute, Timestamp};
use nra_format::limits::MAX_DICTIONARY;
use nra_format::nra::writer::{DictionaryPolicy, WriterOptions};
use nra_format::path::{Quoted, normal};

/// Level of `--fast`.
const FAST_LEVEL: i32 = 1;
/// Level of `--best`.
const BEST_LEVEL: i32 = 19;
/// The part of the memory that names which are put into order together get, and what each takes, bytes.
const NAMES_SHARE: u64 = 8;
const NAME_BYTES: u64 = 64;

/// How entries are made and stored.
#[derive(Debug, clap::Args)]
pub struct PackingArgs {
    /// Store everything below PATH
    #[arg(long, visible_alias = "as", value_name = "PATH", hide_short_help = true)]
    prefix: Option<std::ffi::OsString>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Leave out what is in directories with a CACHEDIR.TAG
    #[arg(long, hide_short_help = true)]
    exclude_caches: bool,
    /// Stay in the file system of each input
    #[arg(long, hide_short_help = true)]
    one_file_system: bool,
    /// Message of the commit
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true, hide_short_help = true)]
    message: String,
    /// Attribute of the archive: name, description, licence, schema, embedding:ID or a name of your own
    #[arg(long, value_name = "NAME=VALUE", hide_short_help = true)]
    attr: Vec<std::ffi::OsString>,
    /// Attribute of each entry that is stored; NAME alone is a tag, media-type has a meaning
    #[arg(long, value_name = "NAME[=VALUE]", hide_short_help = true)]
    tag: Vec<std::ffi::OsString>,
    /// Media type of the files that GLOB matches, as in '*.jpg=image/jpeg'; the last that matches counts
    #[arg(long, value_name = "GLOB=TYPE", value_parser = parse_media_type, hide_short_help = true)]
    media_type: Vec<(Vec<u8>, Vec<u8>)>,
    #[command(flatten)]
    compression: CompressionArgs,
    #[command(flatten)]
    fidelity: FidelityArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// What is added against damage.
#[derive(Debug, clap::Args)]
pub struct RecoveryArgs {
    /// Add recovery data that restores PERCENT of damage (see nra protect)
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100), hide_short_help = true)]
    recovery: Option<u8>,
}

impl RecoveryArgs {
    /// Says whether recovery data is asked for.
    pub fn is_given(&self) -> bool {
        self.recovery.is_some()
    }

    /// Adds recovery data to an archive that was written to the file `output`, and says so.
    ///
    /// # Errors
    ///
    /// When the file can't be read or written; the archive is whole all the same.
    pub fn protect(&self, output: &Path, memory: Option<u64>, ui: &Ui) -> CommandResult<()> {
        let Some(percent) = self.recovery else { return Ok(()) };
        let progress = ui.progress("protecting");
        let done = protect(output, percent.into(), memory.unwrap_or(MEMORY_BYTES), &progress);
        drop(progress);
        let recovery = done?.summary();
        ui.console().note(&format!("recovery data of {} % takes {}", recovery.percent, ui.size(recovery.bytes)));
        Ok(())
    }
}

/// How content is compressed.
#[derive(Debug, Default, clap::Args)]
pub struct CompressionArgs {
    /// Favour: balanced, dense (size), random (reads)
    ///
    /// dense makes archives smaller; random makes the reading of single entries cheaper.
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true)]
    preset: Option<Preset>,
    /// Level, 1 to 22 for zstd
    #[arg(short, long, value_name = "N", conflicts_with_all = ["fast", "best"])]
    pub level: Option<i32>,
    /// Favour speed: level 1
    #[arg(long, conflicts_with = "best")]
    fast: bool,
    /// Favour size, whatever the time: level 19, preset dense
    #[arg(long)]
    best: bool,
    /// Codec: zstd, lz4, none. What does not shrink is always stored as it is
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true, hide_short_help = true)]
    codec: Option<CodecName>,
    /// Dictionary for small blocks: auto, never, or a FILE in the zstd format
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    dict: Option<std::ffi::OsString>,
    /// Align content that is stored as it is: 16, 32, 64 or 4096 bytes
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub align: Option<u32>,
}

impl CompressionArgs {
    /// Says whether something is asked for.
    pub fn is_given(&self) -> bool {
        let Self { preset, level, fast, best, codec, dict, align } = self;
        preset.is_some() || level.is_some() || *fast || *best || codec.is_some() || dict.is_some() || align.is_some()
    }
}

/// What is recorded of each file.
#[derive(Debug, clap::Args)]
struct FidelityArgs {
    /// Same tree and options, same bytes: no owner, no holes, no time of packing; obeys SOURCE_DATE_EPOCH
    #[arg(long, hide_short_help = true)]
    reproducible: bool,
    /// Store what symlinks lead to instead of the symlinks
    #[arg(short = 'L', long, hide_short_help = true)]
    dereference: bool,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    keep: KeepArgs,
}

/// Whose the entries are.
#[derive(Debug, clap::Args)]
pub struct OwnerArgs {
    /// Record this owner, whoever owns the files: names that are known here, or numbers
    ///
    /// USER or :GROUP alone leaves the other as it is, USER: means the group that USER logs in with, all as for chown. --reproducible leaves
    /// owners out, but not this one.
    #[arg(long, value_name = "[USER][:GROUP]", value_parser = parse_owner, conflicts_with = "no_owner", hide_short_help = true)]
    owner: Option<GivenOwner>,
}

impl OwnerArgs {
    /// Returns what is recorded of owners.
    pub fn policy(&self, keep: &KeepArgs) -> OwnerPolicy {
        match &self.owner {
            Some(owner) if keep.numeric_owner => OwnerPolicy::Given(nameless(owner)),
            Some(owner) => OwnerPolicy::Given(owner.clone()),
            None => keep.owner(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    Balanced,
    Dense,
    Random,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CodecName {
    Zstd,
    Lz4,
    None,
}

impl CompressionArgs {
    /// Returns the codec that was asked for.
    pub fn codec(&self) -> Option<Codec> {
        self.codec.map(|name| match name {
            CodecName::Zstd => Codec::Zstd,
            CodecName::Lz4 => Codec::Lz4,
            CodecName::None => Codec::None,
        })
    }

    /// Returns the options that were given, by their names; `--fast` and `--best` are wishes that everything follows as far as it can.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self { preset, level, codec, dict, align, .. } = self;
        let options = [
            ("--preset", preset.is_some()),
            ("--level", level.is_some()),
            ("--codec", codec.is_some()),
            ("--dict", dict.is_some()),
            ("--align", align.is_some()),
        ];
        options.into_iter().filter_map(|(name, is_given)| is_given.then_some(name))
    }

    /// Returns the level that was asked for, for a codec that has these.
    ///
    /// # Errors
    ///
    /// When it has no such level.
    pub fn level_of(&self, codec: &str, levels: &RangeInclusive<i32>) -> CommandResult<Option<i32>> {
        match self.level {
            Some(level) if !levels.contains(&level) => {
                let (first, last) = (levels.start(), levels.end());
                Err(Failure::usage(if first == last {
                    format!("{codec} has no levels")
                } else {
                    format!("{codec} has levels from {first} to {last}, not {level}")
                }))
            }
            Some(level) => Ok(Some(level)),
            None if self.fast => Ok(Some(FAST_LEVEL.clamp(*levels.start(), *levels.end()))),
            None if self.best => Ok(Some(BEST_LEVEL.clamp(*levels.start(), *levels.end()))),
            None => Ok(None),
        }
    }
}

impl PackingArgs {
    /// Returns the memory that may be used, bytes, if something is said of it.
    pub fn memory(&self) -> Option<u64> {
        self.resources.memory
    }

    /// Returns the options that were given.
    ///
    /// # Errors
    ///
    /// When they make no sense together.
    pub fn options(&self) -> CommandResult<PackOptions> {
        options(self)
    }
}

fn options(args: &PackingArgs) -> CommandResult<PackOptions> {
    let fidelity = &args.fidelity;
    let mut filter = inputs::filter(&args.filter)?;
    filter.skip_caches = args.exclude_caches;
    let owner = fidelity.owner.policy(&fidelity.keep);
    let most = PackOptions::default().window_names;
    let window_names = args.resources.memory.map_or(most, |memory| {
        let names = memory / NAMES_SHARE / NAME_BYTES;
        usize::try_from(names).unwrap_or(usize::MAX).min(most)
    });
    let mut writer = writer_options(&args.compression, &args.resources, &args.message)?;
    writer.attributes = attributes(&args.attr, Of::Archive)?;
    Ok(PackOptions {
        writer,
        window_names,
        filter,
        prefix: prefix(args.prefix.as_deref())?,
        follow_symlinks: fidelity.dereference,
        one_file_system: args.one_file_system,
        owner,
        xattrs: !fidelity.keep.no_xattrs,
        tags: attributes(&args.tag, Of::Entries)?,
        media_types: args.media_type.clone(),
        times: !fidelity.keep.no_times,
        reproducible: fidelity.reproducible,
        latest: if fidelity.reproducible { source_date_epoch()? } else { None },
        sync: true,
    })
}

/// Returns the path that everything is stored below; `.` is the top.
fn prefix(given: Option<&OsStr>) -> CommandResult<Vec<u8>> {
    let prefix = given.map_or(&b"."[..], OsStr::as_encoded_bytes);
    // In a script that is a variable without a value.
    if prefix.is_empty() {
        return Err(Failure::usage("--prefix is empty; . stores at the top"));
    }
    Ok(normal(prefix).to_vec())
}

/// Returns the options of the writer that the command line asks for.
///
/// # Errors
///
/// When they make no sense.
pub fn writer_options(compression: &CompressionArgs, resources: &ResourceArgs, message: &str) -> CommandResult<WriterOptions> {
    let mut options = match compression.preset {
        Some(Preset::Balanced) => WriterOptions::balanced(),
        Some(Preset::Random) => WriterOptions::random(),
        Some(Preset::Dense) => WriterOptions::dense(),
        None if compression.best => WriterOptions::dense(),
        None => WriterOptions::balanced(),
    };
    match compression.codec {
        Some(CodecName::Lz4 | CodecName::None) if compression.level.is_some() || compression.fast || compression.best => {
            let failure = Failure::usage("only zstd has levels");
            return Err(failure.hint("leave out --codec, or --level, --fast and --best"));
        }
        None | Some(CodecName::Zstd) => {
            if let Some(level) = compression.level_of("zstd", &(1..=22))? {
                options.method = Method::zstd(level);
            }
        }
        Some(CodecName::Lz4) => options.method = Method { codec: Codec::Lz4, ..options.method },
        Some(CodecName::None) => options.method = Method { codec: Codec::None, ..options.method },
    }
    if let Some(what) = &compression.dict {
        options.dictionary = match what.to_str() {
            Some("auto") => DictionaryPolicy::Auto,
            Some("never") => DictionaryPolicy::Never,
            _ => DictionaryPolicy::Given(read_dictionary(Path::new(what))?),
        };
    }
    options.align = compression.align.unwrap_or(options.align);
    options.message = message.to_owned();
    options.threads = resources.threads();
    if let Some(memory) = resources.memory {
        options.memory_bytes = (memory - memory / NAMES_SHARE).max(MIN_MEMORY);
    }
    Ok(options)
}

/// Reads `GLOB=TYPE`.
fn parse_media_type(text: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    match text.rsplit_once('=') {
        Some((glob, kind)) if !glob.is_empty() && kind.split('/').filter(|part| !part.is_empty()).count() == 2 => {
            Ok((glob.into(), kind.into()))
        }
        _ => Err("not GLOB=TYPE (example: *.jpg=image/jpeg)".to_owned()),
    }
}

/// Reads `USER`, `USER:GROUP`, `:GROUP` or `USER:`, which means the group that the user logs in with, as chown does. A number has no name: the
/// same command line gives the same bytes everywhere.
fn parse_owner(text: &str) -> Result<GivenOwner, String> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let login = || {
        let known = match user.parse() {
            Ok(id) => uzers::get_user_by_uid(id),
            Err(_) => uzers::get_user_by_name(user),
        };
        known.map(|user| user.primary_group_id()).ok_or("this user has no group here; USER:GROUP names one")
    };
    let named = |what: &str, text: &str, id: Option<u32>| -> Result<(u64, Box<[u8]>), String> {
        match id {
            _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => match text.parse::<u32>() {
                // The system takes the highest for none at all.
                Ok(id) if id < u32::MAX => Ok((id.into(), Box::default())),
                _ => Err(format!("the {what} is too large: {} is the highest", u32::MAX - 1)),
            },
            Some(id) => Ok((id.into(), text.as_bytes().into())),
            None => Err(format!("no {what} of this name here; a number works everywhere")),
        }
    };
    let of_user = || named("user", user, uzers::get_user_by_name(user).map(|user| user.uid()));
    let of_group = |group: &str| named("group", group, uzers::get_group_by_name(group).map(|group| group.gid()));
    let (user, group) = match (user, group) {
        ("", None | Some("")) => return Err("neither a user nor a group is named".to_owned()),
        ("", Some(group)) => (None, Some(of_group(group)?)),
        (_, None) => (Some(of_user()?), None),
        (_, Some("")) => {
            let (user, id) = (of_user()?, login()?);
            let name = uzers::get_group_by_gid(id).map(|group| group.name().as_encoded_bytes().into());
            // What is given as a number stays one.
            let name = name.filter(|_| !user.1.is_empty()).unwrap_or_default();
            (Some(user), Some((id.into(), name)))
        }
        (_, Some(group)) => (Some(of_user()?), Some(of_group(group)?)),
    };
    Ok(GivenOwner { user, group })
}

fn nameless(owner: &GivenOwner) -> GivenOwner {
    let bare = |id: &Option<(u64, Box<[u8]>)>| id.as_ref().map(|(id, _)| (*id, Box::default()));
    GivenOwner { user: bare(&owner.user), group: bare(&owner.group) }
}

/// Takes attributes from the command line; the last of one name counts.
fn attributes(texts: &[std::ffi::OsString], of: Of) -> CommandResult<Vec<Attribute>> {
    let mut attributes: Vec<Attribute> = Vec::new();
    for text in texts {
        attr::parse(text, of)?.give_to(&mut attributes);
    }
    Ok(attributes)
}

fn read_dictionary(path: &Path) -> CommandResult<Vec<u8>> {
    let fail = |error| Error::io("read", path.as_os_str().as_encoded_bytes(), error);
    let length = std::fs::metadata(path).map_err(fail)?.len();
    if length > MAX_DICTIONARY.into() {
        let shown = Quoted::new(path.as_os_str().as_encoded_bytes()).to_string();
        return Err(Failure::usage(format!("{shown} is too long for a dictionary: {length} bytes (at most {MAX_DICTIONARY})")));
    }
    Ok(std::fs::read(path).map_err(fail)?)
}

/// Returns the time that `SOURCE_DATE_EPOCH` gives.
///
/// # Errors
///
/// When it is no number.
pub fn source_date_epoch() -> CommandResult<Option<Timestamp>> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => match text.parse() {
            Ok(seconds) => Ok(Some(Timestamp { seconds, nanoseconds: 0 })),
            Err(_) => Err(Failure::usage(format!("SOURCE_DATE_EPOCH is '{text}', not a number of seconds"))),
        },
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage("SOURCE_DATE_EPOCH is not a number of seconds")),
    }
}
