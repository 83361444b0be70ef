/* The store against the engine: the list against the live files, and each filter
 * against the keys of its file. Which keys these are is asked in two ways: of the
 * files, as tools/rocksdb/sst_keys.h reads them, and of RocksDB's own list of all
 * versions. */
#include "test.h"

#include <algorithm>
#include <rocksdb/utilities/debug.h>
#include <unistd.h>

#include "sst_keys.h"

namespace
{

struct View {
    tamis::Store store;
    tamis::Snapshot now;
    tamis_domain domain;
};

View Open()
{
    tamis_diag diag = {};
    View v;
    v.store = OpenStore();
    v.now = tamis::Now(v.store.get(), &diag);
    EXPECT(v.now, "%s: %s", StorePath().c_str(), diag.what);
    v.domain = tamis_store_domain(v.store.get());
    return v;
}

tamis_answer AskIn(const View &v, const tamis::Segment &s, const std::string &key,
                   tamis_reason *why)
{
    tamis_target target;
    tamis_snapshot_find(v.now.get(), s.name.data(), s.name.size(), s.binding.data(),
                        s.binding.size(), 0, &target);
    tamis_key k = tamis_key_of(&v.domain, key.data(), key.size());
    return tamis_snapshot_probe(v.now.get(), &target, &k, why);
}

/* With this name and binding. *sealed: with a filter. */
bool IsListed(const View &v, const tamis::Segment &s, bool *sealed)
{
    tamis_segment_info info;
    if (tamis::Find(v.now, s.name, &info) == SIZE_MAX ||
        s.binding != std::string((const char *)info.binding, info.binding_bytes))
        return false;
    *sealed = info.state == TAMIS_SEGMENT_SEALED;
    return true;
}

void CheckKeys(const View &v, const Live &live)
{
    tamis::SstKeys file;
    rocksdb::Status s = file.Open(rocksdb::Env::Default(), live.path, nullptr);
    if (s.IsNotSupported())
        return;
    OK(s);
    OK(file.Each([&](const rocksdb::Slice &key) {
        tamis_reason why;
        tamis_answer a = AskIn(v, live.segment, key.ToString(), &why);
        EXPECT(a == TAMIS_MAYBE, "LOST: %s is ABSENT from %s, which has it",
               key.ToString(true).c_str(), live.path.c_str());
        EXPECT(why == TAMIS_HIT || live.ingested, "%s of %s: %s",
               key.ToString(true).c_str(), live.path.c_str(), tamis_reason_name(why));
    }));
}

/* A version that is older than the newest of any SST is in an SST. */
void CheckVersions(const View &v, Engine *engine, rocksdb::ColumnFamilyHandle *family,
                   const std::map<std::string, Live> &live)
{
    std::vector<rocksdb::LiveFileMetaData> all, files;
    engine->db->GetLiveFilesMetaData(&all);
    rocksdb::SequenceNumber newest = 0;
    for (const auto &file : all)
        if (file.column_family_name == family->GetName()) {
            files.push_back(file);
            newest = std::max(newest, file.largest_seqno);
        }
    std::vector<rocksdb::KeyVersion> versions;
    std::string last(64, '\xff');
    OK(rocksdb::GetAllKeyVersions(engine->db, family, "", last, 100 << 20, &versions));
    for (const rocksdb::KeyVersion &one : versions) {
        bool found = one.sequence > newest;
        for (size_t i = 0; !found && i < files.size(); i++) {
            const tamis::Segment &s = live.at(tamis::NameOf(files[i].name)).segment;
            found = one.user_key >= files[i].smallestkey &&
                    one.user_key <= files[i].largestkey &&
                    AskIn(v, s, one.user_key, nullptr) == TAMIS_MAYBE;
        }
        EXPECT(found, "LOST: %s, %s, is ABSENT from every SST", one.user_key.c_str(),
               one.GetTypeName().c_str());
    }
}

} // namespace

tamis::Store OpenStore()
{
    tamis_store *store;
    tamis_diag diag = {};
    int err = tamis_store_open(StorePath().c_str(), NULL, &store, &diag);
    EXPECT(err == 0, "%s: %s", StorePath().c_str(), tamis::Words(err, diag).c_str());
    return tamis::Store(store);
}

std::string TagOf(rocksdb::DB *db)
{
    std::string identity;
    OK(db->GetDbIdentity(identity));
    return tamis::TagOf(identity);
}

std::map<std::string, Live> LiveFiles(Engine *engine)
{
    const std::string tag = TagOf(engine->db);
    std::map<std::string, Live> live;
    for (rocksdb::ColumnFamilyHandle *family : engine->families) {
        rocksdb::TablePropertiesCollection tables;
        OK(engine->db->GetPropertiesOfAllTables(family, &tables));
        for (const auto &table : tables) {
            std::string name = tamis::NameOf(table.first);
            live[name] = {{name, tamis::BindingOf(tag, *table.second)},
                          table.first,
                          table.second->num_range_deletions > 0,
                          table.second->user_collected_properties.count(
                              "rocksdb.external_sst_file.version") > 0};
        }
    }
    return live;
}

void CheckStore(Engine *engine, Extra extra)
{
    /* A flush or a compaction is over for its caller before its thread has deleted the
     * old files, and told the shim. */
    const bool whole = extra == Extra::kForbidden;
    if (whole)
        OK(engine->db->PauseBackgroundWork());
    View v = Open();
    bool sealed;
    const bool lacking = !whole && IsListed(v, {"ingest", TagOf(engine->db)}, &sealed);
    const std::map<std::string, Live> live = LiveFiles(engine);
    for (const auto &one : live) {
        const Live &file = one.second;
        sealed = false;
        bool listed = IsListed(v, file.segment, &sealed);
        EXPECT(listed || (file.ingested && lacking),
               "%s, which is live, is not listed as %s", one.first.c_str(),
               file.segment.binding.c_str());
        EXPECT(sealed != file.bare_by_right || file.ingested, "%s: %s filter",
               one.first.c_str(), sealed ? "a" : "no");
        CheckKeys(v, file);
    }
    for (const std::string &name : Listed())
        EXPECT(!whole || live.count(name), "%s is listed, and not live", name.c_str());
    for (rocksdb::ColumnFamilyHandle *family : engine->families)
        CheckVersions(v, engine, family, live);
    if (whole)
        OK(engine->db->ContinueBackgroundWork());
}

tamis_answer Ask(const tamis::Segment &segment, const std::string &key,
                 tamis_reason *why)
{
    return AskIn(Open(), segment, key, why);
}

std::vector<std::string> Listed()
{
    View v = Open();
    std::vector<std::string> names;
    struct tamis_segment_info info;
    for (size_t i = 0; tamis_snapshot_next(v.now.get(), &i); i++) {
        EXPECT(tamis_snapshot_segment(v.now.get(), i, &info) == 0, "no segment");
        names.emplace_back(reinterpret_cast<const char *>(info.name), info.name_bytes);
    }
    std::sort(names.begin(), names.end());
    return names;
}

Live Only(Engine *engine)
{
    std::map<std::string, Live> live = LiveFiles(engine);
    EXPECT(live.size() == 1, "%zu live files", live.size());
    return live.begin()->second;
}

void ExpectReason(const tamis::Segment &segment, const std::string &key,
                  tamis_reason expected)
{
    tamis_reason why;
    tamis_answer answer = Ask(segment, key, &why);
    EXPECT(why == expected && (answer == TAMIS_ABSENT) == (expected == TAMIS_NO_REASON),
           "%s in %s: %s, not %s", key.c_str(), segment.name.c_str(),
           tamis_reason_name(why), tamis_reason_name(expected));
}

void Flush(Engine *engine)
{
    OK(engine->db->Flush(rocksdb::FlushOptions(), engine->families));
}

bool Passes(Engine *engine, const std::string &key)
{
    rocksdb::TablePropertiesCollection tables;
    OK(engine->db->GetPropertiesOfAllTables(&tables));
    auto filter = engine->filters->TableFilter(key);
    return std::any_of(tables.begin(), tables.end(),
                       [&](const auto &table) { return filter(*table.second); });
}
